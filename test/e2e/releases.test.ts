import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { fairlead, serverProcess } from '../harness/process.ts'
import { startReleasing } from '../harness/releases.ts'
import { temporaryDirectory } from '../harness/temporary.ts'

const releases = 50

const long = { timeout: 900_000 }

it(
  'loses no request over 50 releases under load, and a conversation that is open over a switch goes on',
  long,
  async () => {
    await using releasing = await startApp({ FAIRLEAD_DRAIN_TIMEOUT: '900' })
    const { load } = releasing
    const conversation = await open(releasing.url, 'POST', '/echo')
    expect(conversation.response.headers['x-release']).toBe('1')

    for (let made = 0; made < releases; made++) await releasing.release()
    conversation.outgoing.write('are you there?')
    expect(await conversation.nextChunk()).toBe('are you there?')
    conversation.outgoing.end()
    expect((await conversation.ended).how).toBe('complete')
    // The load goes on until the last old release has ended, for that is when requests could still be lost.
    await releasing.settled()

    const { failures, requests, answers } = await load.stop()
    expect(failures).toEqual([])
    expect(requests).toBeGreaterThan(100)
    expect([...answers.keys()].sort((a, b) => a - b)).toEqual(Array.from({ length: releases + 1 }, (_, i) => i + 1))
  },
)

it('cuts an endless answer of an old release only when the drain time is over', async () => {
  const drainSeconds = 2
  await using releasing = await startApp({ FAIRLEAD_DRAIN_TIMEOUT: String(drainSeconds) })
  const endless = await open(releasing.url, 'GET', '/endless')
  endless.response.resume()

  await releasing.release()
  const end = await endless.ended
  expect(end.how).toBe('cut off')
  // Whatever release 1 answered was sent before the switch, and the drain begins after it. A timer may be a moment early.
  expect(end.at - releasing.load.lastSentTo(1)).toBeGreaterThan(drainSeconds * 1000 - 10)
  await releasing.settled()
  expect((await releasing.load.stop()).failures).toEqual([])
})

/** A server of its own with an app under load; all of it ends with the `await using` block. */
async function startApp(environment: Record<string, string>) {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const key = (await fairlead(['keys', 'create', '--name', 'test', '--data-dir', dataDirectory])).stdout.trim()
  const server = cleanup.use(await serverProcess(dataDirectory, environment))
  const client = server.clientFor(key)
  const project = await client.projects.create({ body: { name: 'p' } })
  const releasing = cleanup.use(await startReleasing({ client, projectId: project.id, dataDirectory }))
  const owned = cleanup.move()
  return { ...releasing, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

interface End {
  readonly how: 'complete' | 'cut off'
  /** By the clock of `performance.now()`. */
  readonly at: number
}

interface OpenExchange {
  readonly outgoing: ClientRequest
  readonly response: IncomingMessage
  readonly ended: Promise<End>
  nextChunk(): Promise<string>
}

/** A request whose answer has begun, and whose body is still open on both sides. */
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
