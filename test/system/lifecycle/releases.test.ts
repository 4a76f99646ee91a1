import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { expect, it } from 'vitest'
import { startConversation } from '../../harness/conversation.ts'
import { startReleasing } from '../../harness/releases.ts'
import { serverProcesses } from '../../harness/server-processes.ts'

/** `npm run bench releases` makes fifty. */
const releases = 5

const long = { timeout: 900_000 }

it('loses no request in five releases under load, and open exchanges continue after a switch', long, async () => {
  await using releasing = await startApp({ FAIRLEAD_DRAIN_TIMEOUT: '900' })
  const { load, url } = releasing
  const upload = await open(url, 'POST', '/echo')
  const stream = await open(url, 'GET', '/endless')
  await using oldest = await startConversation(url)
  expect([upload, stream].map(({ response }) => response.headers['x-release'])).toEqual(['1', '1'])
  expect(oldest.release).toBe(1)

  for (let made = 0; made < releases; made++) {
    await using conversation = await startConversation(url)
    const { number } = await releasing.release()
    expect(conversation.release).toBe(number - 1)
    expect(await conversation.echo()).toBe(true)
    await conversation.close()
  }
  expect(await oldest.echo()).toBe(true)
  await oldest.close()
  expect(await stream.nextChunk()).toContain('.')
  stream.outgoing.destroy()
  upload.outgoing.write('are you there?')
  expect(await upload.nextChunk()).toBe('are you there?')
  upload.outgoing.end()
  expect((await upload.ended).how).toBe('complete')
  // Load continues until the last old release has ended, because requests could be lost until then.
  await releasing.settled()

  const { failures, lostConnections, requests, answers } = await load.stop()
  expect(failures).toEqual([])
  expect(lostConnections).toBe(0)
  expect(requests).toBeGreaterThan(100)
  expect([...answers.keys()].sort((a, b) => a - b)).toEqual(Array.from({ length: releases + 1 }, (_, i) => i + 1))
})

it('ends open exchanges on an old release only after the drain time', async () => {
  const drainSeconds = 2
  await using releasing = await startApp({ FAIRLEAD_DRAIN_TIMEOUT: String(drainSeconds) })
  const { load, url } = releasing
  const opened: { release: number; stream: OpenExchange; conversation: Promise<number> }[] = []
  for (let release = 1; release <= 3; release++) {
    const stream = await open(url, 'GET', '/endless')
    stream.response.resume()
    const conversation = await startConversation(url)
    expect(conversation.release).toBe(release)
    opened.push({ release, stream, conversation: conversation.goOn() })
    await releasing.release()
  }
  await using last = await startConversation(url)
  for (const { release, stream, conversation } of opened) {
    const { how, at } = await stream.ended
    expect(how).toBe('cut off')
    // Requests that a release answered were sent before the switch, which starts its drain time. Timers may fire early.
    const earliest = load.lastSentTo(release) + drainSeconds * 1000 - 10
    expect(at).toBeGreaterThan(earliest)
    expect(await conversation).toBeGreaterThan(earliest)
  }
  await releasing.settled()
  expect(await last.echo()).toBe(true)
  const { failures, lostConnections } = await load.stop()
  expect(failures).toEqual([])
  expect(lostConnections).toBe(0)
})

/** Starts a server with an app under load. */
async function startApp(environment: Record<string, string>) {
  await using cleanup = new AsyncDisposableStack()
  const servers = cleanup.use(await serverProcesses(environment))
  const server = cleanup.use(await servers.start())
  const client = server.clientFor(await servers.key())
  const project = await client.projects.create({ body: { name: 'p' } })
  const releasing = cleanup.use(await startReleasing({ client, projectId: project.id, dataDirectory: servers.data }))
  const owned = cleanup.move()
  return { ...releasing, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

interface End {
  readonly how: 'complete' | 'cut off'
  /** A time of `performance.now()`. */
  readonly at: number
}

interface OpenExchange {
  readonly outgoing: ClientRequest
  readonly response: IncomingMessage
  readonly ended: Promise<End>
  nextChunk(): Promise<string>
}

/** Sends a request, and resolves when its response has started while both bodies are still open. */
async function open(url: string, method: string, path: string): Promise<OpenExchange> {
  const outgoing = request(new URL(path, url), { method, agent: false })
  outgoing.on('error', () => undefined)
  if (method === 'GET') outgoing.end()
  else outgoing.flushHeaders()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  const ended = new Promise<End>((done) => {
    response.on('error', () => undefined)
    response.on('close', () => done({ how: response.complete ? 'complete' : 'cut off', at: performance.now() }))
  })
  return {
    outgoing,
    response,
    ended,
    nextChunk: async () => {
      const over = ended.then(({ how }) => Promise.reject(new Error(`the answer is ${how}`)))
      return String((await Promise.race([once(response, 'data'), over]))[0])
    },
  }
}
