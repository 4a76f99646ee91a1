import { createServer } from 'node:http'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { commonVersion, createEngine } from '../../../server/src/runtimes/docker/client.ts'
import { EngineError, isAway, isMissing } from '../../../server/src/runtimes/docker/errors.ts'
import { readFrames, readJsonLines } from '../../../server/src/runtimes/docker/streams.ts'
import { baseImage, importBaseImage, noDocker, startDockerd, type TestDockerd } from '../../harness/docker.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

test.each([
  ['20.10 of Debian', '1.41', '1.12', '1.41'],
  ['26.1', '1.45', '1.24', '1.45'],
  ['29, which refuses old clients', '1.52', '1.44', '1.51'],
  ['19.03, which is too old', '1.40', '1.12', null],
  ['that is too new', '1.99', '1.60', null],
  ['1.100, which is newer than 1.51', '1.100', '1.24', '1.51'],
])('the client and an engine %s use the newest common version', (_, last, first, expected) => {
  expect(commonVersion({ ApiVersion: last, MinAPIVersion: first })).toBe(expected)
})

async function allOf<T, U = T>(values: AsyncIterable<T>, as?: (value: T) => U): Promise<(T | U)[]> {
  const all: (T | U)[] = []
  for await (const value of values) all.push(as === undefined ? value : as(value))
  return all
}

const frame = (stream: number, text: string): Buffer => {
  const header = Buffer.alloc(8)
  header[0] = stream
  header.writeUInt32BE(Buffer.byteLength(text), 4)
  return Buffer.concat([header, Buffer.from(text)])
}

test.each([1, 7, 1_000])('assembles frames that arrive in pieces of %s bytes', async (size) => {
  const bytes = Buffer.concat([frame(1, 'one'), frame(2, ''), frame(2, 'zwölf'), frame(1, 'x'.repeat(2_000))])
  const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  )
  const seen = await allOf(readFrames(Readable.from(pieces)), ({ stream, bytes: part }) => [stream, String(part)])
  expect(seen).toEqual([
    ['stdout', 'one'],
    ['stderr', ''],
    ['stderr', 'zwölf'],
    ['stdout', 'x'.repeat(2_000)],
  ])
})

test('refuses a stream without frames before it fills the memory', async () => {
  const endless = Readable.from([Buffer.from('HTTP/1.1 200 OK\r\n')])
  await expect(allOf(readFrames(endless))).rejects.toThrow('not known')
})

test('reads JSON values line by line, even when characters are split', async () => {
  const bytes = Buffer.from('{"a":"ü"}\r\n\n{"a":"€"}')
  const cut = Readable.from([...bytes].map((byte) => Buffer.from([byte])))
  expect(await allOf(readJsonLines<{ a: string }>(cut))).toEqual([{ a: 'ü' }, { a: '€' }])
})

describe('an engine without proper responses', () => {
  test('is unavailable when its socket has no listener', async () => {
    await using folder = await temporaryDirectory()
    const error = await createEngine(join(folder.path, 'none.sock'))
      .version()
      .catch((reason: unknown) => reason)
    expect([isAway(error), isMissing(error)]).toEqual([true, false])
    expect(error).toMatchObject({ name: 'EngineError', status: null, detail: 'ENOENT' })
  })

  test('is unavailable when it takes too long, or its response ends early', async () => {
    await using folder = await temporaryDirectory()
    const socket = join(folder.path, 'slow.sock')
    const server = createServer((request, response) => {
      if (request.url === '/version') response.end('{"ApiVersion":"1.45","Version":"26"}')
      else if (request.url?.endsWith('/cut') === true)
        response.writeHead(200).write('{"half":', () => response.destroy())
    }).listen(socket)
    const engine = createEngine(socket)
    for (const path of [['hangs'], ['cut']]) {
      const error = await engine.call({ method: 'GET', path, timeoutMs: 200 }).catch((reason: unknown) => reason)
      expect(isAway(error)).toBe(true)
    }
    const abort = new AbortController()
    const hanging = engine.call({ method: 'GET', path: ['hangs'], signal: abort.signal })
    const reason = new Error('canceled')
    abort.abort(reason)
    await expect(hanging).rejects.toBe(reason)
    server.close()
    server.closeAllConnections()
  })
})

describe('an engine that hangs', () => {
  /** Answers with its version while `answers` allows it, and begins an endless response. */
  async function hanging(answers: () => boolean) {
    await using cleanup = new AsyncDisposableStack()
    const folder = cleanup.use(await temporaryDirectory())
    const asked: string[] = []
    const socket = join(folder.path, 'hangs.sock')
    const server = createServer((request, response) => {
      asked.push(request.url ?? '')
      if (request.url === '/version' && answers()) response.end('{"ApiVersion":"1.45","Version":"26"}')
      else if (request.url?.endsWith('/long') === true) response.end(JSON.stringify('x'.repeat(2_000)))
      else if (request.url !== '/version') response.writeHead(200).write('{"half":')
    }).listen(socket)
    cleanup.defer(() => {
      server.close()
      server.closeAllConnections()
    })
    const owned = cleanup.move()
    return { engine: createEngine(socket, 3_000), asked, [Symbol.asyncDispose]: () => owned.disposeAsync() }
  }

  test('is unavailable when its response does not end in time', async () => {
    await using silent = await hanging(() => true)
    const call = silent.engine.call({ method: 'GET', path: ['half'], timeoutMs: 200 })
    expect(isAway(await call.catch((reason: unknown) => reason))).toBe(true)
    // A stream may take any time.
    const answer = await silent.engine.open({ method: 'GET', path: ['half'], timeoutMs: 200 })
    await sleep(400)
    expect(answer.destroyed).toBe(false)
    answer.destroy()
  })

  test('does not delay each call', async () => {
    let answers = true
    await using silent = await hanging(() => answers)
    const ask = (timeoutMs: number) =>
      silent.engine.call({ method: 'GET', path: ['half'], timeoutMs }).catch((reason: unknown) => reason)
    expect(isAway(await ask(100))).toBe(true)
    answers = false
    const failures = [await ask(60_000), await ask(60_000), ...(await Promise.all([ask(60_000), ask(60_000)]))]
    expect(failures.map(isAway)).toEqual([true, true, true, true])
    // Before the first call, and once after it.
    expect(silent.asked.filter((url) => url === '/version')).toHaveLength(2)
  }, 30_000)

  test('is not read beyond the bytes that a call takes', async () => {
    await using silent = await hanging(() => true)
    const call = silent.engine.call({ method: 'GET', path: ['long'], mostBytes: 1_000 })
    await expect(call).rejects.toMatchObject({ status: 413 })
    expect(await silent.engine.call({ method: 'GET', path: ['long'], mostBytes: 2_002 })).toHaveLength(2_000)
  })
})

const why = await noDocker()
if (why !== null) skipped('the client of the Docker engine', why)

describe.skipIf(why !== null)('a real engine', () => {
  let dockerd: TestDockerd
  beforeAll(async () => {
    dockerd = await startDockerd()
    await importBaseImage(dockerd.engine)
  }, 120_000)
  afterAll(() => dockerd?.[Symbol.asyncDispose](), 60_000)

  const create = async (command: string[]) => {
    const body = {
      Image: baseImage,
      Cmd: command,
      OpenStdin: true,
      StdinOnce: true,
      HostConfig: { NetworkMode: 'none' },
    }
    const made = await dockerd.engine.call<{ Id: string }>({ method: 'POST', path: ['containers', 'create'], body })
    return made.Id
  }

  it('gets requests in a supported version, and reports missing objects', async () => {
    const { api } = await dockerd.engine.version()
    expect(api).toMatch(/^1\.\d+$/)
    const inspect = (name: string) =>
      dockerd.engine.call({ method: 'GET', path: ['containers', name, 'json'] }).catch((error: unknown) => error)
    expect(isMissing(await inspect('nothing'))).toBe(true)
    expect(await inspect('../images')).toBeInstanceOf(EngineError)
  })

  it('gives the input and output of a program, with two separate streams', async () => {
    const id = await create(['sh', '-c', 'read line; echo "got $line"; echo wrong >&2'])
    const streams = await dockerd.engine.upgrade({
      method: 'POST',
      path: ['containers', id, 'attach'],
      query: { stream: true, stdin: true, stdout: true, stderr: true },
    })
    await dockerd.engine.call({ method: 'POST', path: ['containers', id, 'start'] })
    streams.end('a line\n')
    const seen = await allOf(readFrames(streams), ({ stream, bytes }) => `${stream}: ${bytes}`)
    expect(seen.toSorted()).toEqual(['stderr: wrong\n', 'stdout: got a line\n'])
  })

  it('reads an uploaded archive, and refuses an upgrade with its reason', async () => {
    const id = await create(['true'])
    const answer = await dockerd.engine.open({
      method: 'GET',
      path: ['containers', id, 'archive'],
      query: { path: '/etc/passwd' },
    })
    const archive = await buffer(answer)
    const upload = new PassThrough()
    upload.end(archive)
    await dockerd.engine.call({ method: 'PUT', path: ['containers', id, 'archive'], query: { path: '/tmp' }, upload })
    const copy = { method: 'GET', path: ['containers', id, 'archive'], query: { path: '/tmp/passwd' } } as const
    expect((await buffer(await dockerd.engine.open(copy))).length).toBe(archive.length)
    const refused = dockerd.engine.upgrade({ method: 'POST', path: ['exec', 'nothing', 'start'], body: {} })
    await expect(refused).rejects.toMatchObject({ status: 404 })
  })

  it('is used again after a kill and a restart', async () => {
    await dockerd.kill('SIGKILL')
    const error = await dockerd.engine.call({ method: 'GET', path: ['info'] }).catch((reason: unknown) => reason)
    expect(isAway(error)).toBe(true)
    await dockerd.start()
    expect(await dockerd.engine.call({ method: 'GET', path: ['info'] })).toMatchObject({ OSType: 'linux' })
  })
})
