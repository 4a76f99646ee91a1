import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { deployAndSettle } from '../deployments.ts'
import { fairlead, type ServerProcess, serverProcess } from '../process.ts'
import { nodeApp, repository } from '../repository.ts'
import { connectRun } from '../runs.ts'
import { temporaryDirectory } from '../temporary.ts'

/*
 * Tests a schedule of every minute while servers are killed: `node test/runs/exactly-once.ts [minutes] [kills]`. Two
 * servers share a data directory. Each kill sends SIGKILL to one of them in turn, and another server starts. Prints for
 * how many minutes the command began exactly once, according to the rows and to the command's output.
 */

const minutes = Number(process.argv[2] ?? 30)
const kills = Number(process.argv[3] ?? 10)
const minuteMs = 60_000

await using directory = await temporaryDirectory()
const data = join(directory.path, 'data')
const servers: ServerProcess[] = [await serverProcess(data), await serverProcess(data)]
const made = await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])
const key = made.stdout.trim()
const client = () => (servers[0] as ServerProcess).clientFor(key)
const { id: project_id } = await client().projects.create({ body: { name: 'p' } })
await using source = await repository(nodeApp('here'))
await deployAndSettle(client(), project_id, { name: 'app', git_url: source.url })
const { apps } = await client().apps.list({ params: { project_id } })
const params = { project_id, app_id: apps[0]?.id ?? '' }
const command = ['sh', '-c', 'date +%s >> "$HOME/fired"']
const body = { name: 'minutely', schedule: '* * * * *', command }
const { id: schedule_id, next_at } = await client().schedules.create({ params, body })

const first = Date.parse(next_at)
const end = first + minutes * minuteMs
for (let kill = 0; kill < kills; kill++) {
  // Each kill has a random time within its part of the whole, often close to a full minute.
  const part = first + ((kill + Math.random()) * minutes * minuteMs) / kills
  const at = kill % 2 === 0 ? part : Math.round(part / minuteMs) * minuteMs + Math.random() * 1_000
  await sleep(Math.max(0, at - Date.now()))
  const killed = servers.shift()
  await killed?.kill()
  servers.push(await serverProcess(data))
  process.stdout.write(`killed a server at ${new Date(at).toISOString()}\n`)
}
await sleep(Math.max(0, end + 30_000 - Date.now()))

const { runs } = await client().runs.list({ params, query: { schedule_id } })
const due = runs.filter(({ due_at }) => Date.parse(due_at ?? '') < end)
const statuses = Object.groupBy(due, ({ status }) => status)
const { connect } = await client().runs.create({ params, body: { command: ['sh', '-c', 'cat "$HOME/fired"'] } })
const reader = await connectRun((servers[0] as ServerProcess).url, connect)
await reader.ended
const lines = reader.printed.output
  .trim()
  .split('\n')
  .filter((line) => Number(line) * 1000 < end)
const count = (status: keyof typeof statuses) => statuses[status]?.length ?? 0
process.stdout.write(
  `${minutes} minutes, ${kills} kills: ${new Set(due.map(({ due_at }) => due_at)).size} times with a run, ${due.length} runs ` +
    `(${count('succeeded')} succeeded, ${count('failed')} failed, ${count('skipped')} skipped), ${lines.length} lines written\n`,
)
for (const { due_at, status, problem } of due.filter(({ status }) => status !== 'succeeded')) {
  process.stdout.write(`${due_at} ${status}: ${problem}\n`)
}
for (const server of servers) await server[Symbol.asyncDispose]()
