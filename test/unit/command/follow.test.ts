import { once } from 'node:events'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { afterEach, expect, it, vi } from 'vitest'
import { followDeployment, followLog } from '../../../server/src/commands/client/logs.ts'
import { type ClientOptions, createClient } from '../../../server/src/contract/client.ts'

const servers: Server[] = []
afterEach(() => {
  vi.useRealTimers()
  for (const server of servers.splice(0)) {
    server.close()
    server.closeAllConnections()
  }
})

const patient = { silenceMs: 60_000, patienceMs: 60_000, reconnectMs: 10 }
const impatient = { ...patient, patienceMs: 300 }

/** Follows a deployment on a server that answers like this. */
async function following(answer: RequestListener, limits = patient) {
  const server = createServer(answer).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { server, ...follower({ baseUrl: `http://127.0.0.1:${port}/v1`, limits }) }
}

/** Follows a deployment whose answers come from memory. No time passes, except by `passTime`. */
function followingInMemory(answer: (path: string) => ReadableStream | string, limits = patient) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  return follower({
    baseUrl: 'http://in-memory.test/v1',
    limits,
    async fetch(url, { signal } = {}) {
      const body = answer(String(url))
      if (typeof body === 'string' || !signal) return new Response(body)
      return new Response(body.pipeThrough(new TransformStream(), { signal }), { headers: events })
    },
  })
}

/** Lets time pass after everything that was sent has arrived. */
async function passTime(ms: number) {
  await setImmediate()
  vi.advanceTimersByTime(ms)
}

type FollowerOptions = Pick<ClientOptions, 'baseUrl' | 'fetch'> & { readonly limits: typeof patient }

function follower({ limits, ...server }: FollowerOptions) {
  const client = createClient({ ...server, apiKey: 'fl_1', retries: 0 })
  const printed: string[] = []
  const said: string[] = []
  const log = {
    params: { project_id: 'proj_1', id: 'dep_1' },
    print: (line: string) => void printed.push(line),
    say: (line: string) => void said.push(line),
    signal: new AbortController().signal,
    limits,
  }
  return { client, log, printed, said }
}

const events = { 'content-type': 'text/event-stream' }
const line = (id: number) => `id: ${id}\ndata: {"text":"line ${id}"}\n\n`

it('a follower of a server that becomes unavailable says so, and gives up after a time', async () => {
  const { server, client, log, printed, said } = await following((_, response) => {
    // Otherwise the follower could send its next request on this connection before it knows of the end.
    response.writeHead(200, { ...events, connection: 'close' }).end(line(1))
    server.close()
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
  const { silenceMs } = impatient
  const { client, log, printed, said } = followingInMemory(() => {
    let comments = 0
    return new ReadableStream({
      async pull(controller) {
        await passTime(silenceMs - 1)
        comments += 1
        if (comments < 20) return controller.enqueue(Buffer.from(': alive\n\n'))
        controller.enqueue(Buffer.from(`${line(1)}event: end\ndata: {}\n\n`))
        controller.close()
      },
    })
  }, impatient)
  await followLog(client, { ...log, query: {} })
  expect({ printed, said }).toEqual({ printed: ['line 1'], said: [] })
})

const building = 'waits as long as the server reports the build as running'
const endless = { ...patient, patienceMs: 0 }

it(`a follower of a build whose log is silent ${building}`, async () => {
  let reads = 0
  const { client, log, printed, said } = followingInMemory((path) => {
    if (!path.includes('/logs')) return JSON.stringify({ status: reads < 8 ? 'building' : 'running' })
    reads += 1
    if (reads === 8) return new Blob([`${line(1)}event: end\ndata: {}\n\n`]).stream()
    void passTime(endless.silenceMs)
    return new ReadableStream()
  }, endless)
  expect(await followDeployment(client, log)).toMatchObject({ status: 'running' })
  expect({ printed, said }).toEqual({ printed: ['line 1'], said: [] })
})

it(`a follower of a build whose log is truncated ${building}`, async () => {
  let reads = 0
  const { client, log, printed, said } = await following((request, response) => {
    if (request.url?.includes('/logs') === false) {
      response.end(JSON.stringify({ status: reads < 8 ? 'building' : 'running' }))
      return
    }
    reads += 1
    if (reads < 8) response.destroy()
    else response.writeHead(200, events).end(`${line(1)}event: end\ndata: {}\n\n`)
  }, endless)
  expect(await followDeployment(client, log)).toMatchObject({ status: 'running' })
  expect({ printed, said }).toEqual({ printed: ['line 1'], said: [] })
})

it('a follower of a build that has ended gives up after a time when its log stays silent', async () => {
  const { client, log } = await following(
    (request, response) => {
      if (request.url?.includes('/logs') === false) response.end('{"status":"running"}')
    },
    { ...impatient, silenceMs: 100 },
  )
  await expect(followDeployment(client, log)).rejects.toThrow('no answer')
})
