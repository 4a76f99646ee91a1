import { once } from 'node:events'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { followDeployment, followLog } from '../../../server/src/commands/client/logs.ts'
import { createClient } from '../../../server/src/contract/client.ts'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close()
    server.closeAllConnections()
  }
})

/** Follows a deployment on a server that answers like this. */
async function following(answer: RequestListener, limits = { silenceMs: 60_000, patienceMs: 60_000, reconnectMs: 10 }) {
  const server = createServer(answer).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = createClient({ baseUrl: `http://127.0.0.1:${port}/v1`, apiKey: 'fl_1', retries: 0 })
  const printed: string[] = []
  const said: string[] = []
  const log = {
    params: { project_id: 'proj_1', id: 'dep_1' },
    print: (line: string) => void printed.push(line),
    say: (line: string) => void said.push(line),
    signal: new AbortController().signal,
    limits,
  }
  return { server, client, log, printed, said }
}

const impatient = { silenceMs: 60_000, patienceMs: 300, reconnectMs: 10 }

const events = { 'content-type': 'text/event-stream' }
const line = (id: number) => `id: ${id}\ndata: {"text":"line ${id}"}\n\n`

it('a follower of a server that becomes unavailable says so, and gives up after a time', async () => {
  const { server, client, log, printed, said } = await following((_, response) => {
    response.writeHead(200, events).end(line(1))
    server.close()
    response.on('close', () => server.closeAllConnections())
  }, impatient)
  await expect(followDeployment(client, log)).rejects.toThrow('fetch failed')
  expect(printed).toEqual(['line 1'])
  expect(said).toEqual([expect.stringMatching(/does not answer \(ECONN\w+\); trying again for at most/)])
})

it.each([
  ['answers nothing', () => undefined],
  ['sends nothing, not even a comment', (response) => response.writeHead(200, events).flushHeaders()],
] as [string, (response: ServerResponse) => unknown][])(
  'a follower of a server that accepts connections and %s gives up after a time',
  async (_, answer) => {
    const { client, log, said } = await following((__, response) => void answer(response), {
      ...impatient,
      silenceMs: 300,
    })
    await expect(followLog(client, { ...log, query: {} })).rejects.toThrow('no answer')
    expect(said[0]).toMatch(/does not answer \(no answer for .*\); trying again for at most/)
  },
)

it('a follower does not take an unrelated page for a log', async () => {
  const { client, log, said } = await following((_, response) => void response.end('<html>'), impatient)
  await expect(followLog(client, { ...log, query: {} })).rejects.toThrow("a body that is not Fairlead's")
  expect(said).toHaveLength(1)
})

it('a follower resumes after truncated answers, and says that the server answers again', async () => {
  let asked = 0
  const { client, log, printed, said } = await following((request, response) => {
    asked += 1
    if ([2, 3, 5].includes(asked)) return void request.socket.destroy()
    if (request.url?.includes('/logs') === false) return void response.end('{"status":"running"}')
    expect(request.headers['last-event-id']).toBe(asked === 1 ? undefined : '1')
    response.writeHead(200, events)
    if (asked === 1) response.end(line(1))
    else response.end(`${line(2)}event: end\ndata: {}\n\n`)
  })
  expect(await followDeployment(client, log)).toMatchObject({ status: 'running' })
  expect(printed).toEqual(['line 1', 'line 2'])
  expect(said.filter((text) => text === 'the server answers again')).toHaveLength(2)
})

it('a follower waits for a server that sends only comments', async () => {
  const { client, log, printed, said } = await following(
    (_, response) => {
      response.writeHead(200, events)
      let comments = 0
      const timer = setInterval(() => {
        comments += 1
        if (comments < 20) return void response.write(': alive\n\n')
        clearInterval(timer)
        response.end(`${line(1)}event: end\ndata: {}\n\n`)
      }, 100)
    },
    { ...impatient, silenceMs: 1_500 },
  )
  await followLog(client, { ...log, query: {} })
  expect({ printed, said }).toEqual({ printed: ['line 1'], said: [] })
})

it.each([
  ['silent', (response) => response.writeHead(200, events).flushHeaders()],
  ['truncated', (response) => response.destroy()],
] as [string, (response: ServerResponse) => unknown][])(
  'a follower of a build whose log is %s waits as long as the server reports the build as running',
  async (_, answer) => {
    let reads = 0
    const { client, log, printed, said } = await following(
      (request, response) => {
        if (request.url?.includes('/logs') === false) {
          response.end(JSON.stringify({ status: reads < 8 ? 'building' : 'running' }))
          return
        }
        reads += 1
        if (reads < 8) answer(response)
        else response.writeHead(200, events).end(`${line(1)}event: end\ndata: {}\n\n`)
      },
      { silenceMs: 100, patienceMs: 0, reconnectMs: 10 },
    )
    expect(await followDeployment(client, log)).toMatchObject({ status: 'running' })
    expect({ printed, said }).toEqual({ printed: ['line 1'], said: [] })
  },
)

it('a follower of a build that has ended gives up after a time when its log stays silent', async () => {
  const { client, log } = await following(
    (request, response) => {
      if (request.url?.includes('/logs') === false) response.end('{"status":"running"}')
    },
    { ...impatient, silenceMs: 100 },
  )
  await expect(followDeployment(client, log)).rejects.toThrow('no answer')
})
