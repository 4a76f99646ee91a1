// Loaded into a server (`node --import`): the socket in PAUSES_SOCKET reports what the server's thread has done since
// the last question.
import { createServer } from 'node:http'

if (process.argv.includes('serve') && process.env.PAUSES_SOCKET !== undefined) {
  const everyMs = 2
  const milliseconds = ({ user, system }) => (user + system) / 1000
  let [longest, largest] = [0, 0]
  let [cpu, memory] = [process.cpuUsage(), process.memoryUsage.rss()]
  let thread = process.threadCpuUsage()
  // The thread's CPU time since its last turn. Wall time would include pauses while other programs of the machine run.
  setInterval(() => {
    longest = Math.max(longest, milliseconds(process.threadCpuUsage(thread)))
    thread = process.threadCpuUsage()
    largest = Math.max(largest, process.memoryUsage.rss())
  }, everyMs).unref()
  createServer((_request, response) => {
    const cpuMs = milliseconds(process.cpuUsage(cpu))
    response.end(JSON.stringify({ pauseMs: longest, cpuMs, megabytes: Math.max(0, largest - memory) / 1e6 }))
    ;[longest, largest] = [0, 0]
    ;[cpu, memory] = [process.cpuUsage(), process.memoryUsage.rss()]
  })
    .listen(process.env.PAUSES_SOCKET)
    .unref()
}
