import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { signal } from '../../harness/process.ts'

const program = fileURLToPath(new URL('fixtures/successor.ts', import.meta.url))

interface Line {
  readonly version: string
  readonly pid?: number
  readonly address?: { readonly port: number }
  readonly successor?: { readonly pid: number; readonly version: string }
  readonly retired?: true
  readonly error?: string
}

/** Starts a server that hands over; the lines of all its successors arrive here too. */
async function runningServer(...args: string[]) {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines: Line[] = []
  createInterface({ input: child.stdout }).on('line', (line) => void lines.push(JSON.parse(line) as Line))
  const exited = once(child, 'exit')
  await expect.poll(() => lines.length).toBeGreaterThan(0)
  return {
    child,
    exited,
    lines,
    port: lines[0]?.address?.port ?? 0,
    async [Symbol.asyncDispose]() {
      for (const { pid } of lines) {
        try {
          if (pid !== undefined) process.kill(pid, 'SIGKILL')
        } catch {
          // It has already ended.
        }
      }
      await exited
    },
  }
}

interface Answer {
  readonly text: string
  readonly connection: string | undefined
}

/** Sends one request; rejects when it fails. */
async function send(port: number, options: { agent?: Agent; path?: string } = {}): Promise<Answer> {
  const sent = request({ host: '127.0.0.1', port, agent: options.agent ?? false, path: options.path ?? '/' })
  sent.end()
  const [response] = (await once(sent, 'response')) as [import('node:http').IncomingMessage]
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += chunk
  return { text, connection: response.headers.connection }
}

/** Sends requests until it is stopped, at most hundreds per second; the first failure rejects. */
function load(port: number, agent?: Agent) {
  const versions = new Map<string, number>()
  let stopped = false
  const running = (async () => {
    while (!stopped) {
      const { text } = await send(port, agent === undefined ? {} : { agent })
      const { version } = JSON.parse(text) as { version: string }
      versions.set(version, (versions.get(version) ?? 0) + 1)
      await pause(5)
    }
    return versions
  })()
  return {
    versions,
    stop: () => {
      stopped = true
      return running
    },
  }
}

describe('a handover', () => {
  it('loses no request of new and kept connections, and ends the previous server', async () => {
    await using server = await runningServer('1')
    const kept = new Agent({ keepAlive: true, maxSockets: 4 })
    const loads = Array.from({ length: 12 }, (_, at) => load(server.port, at % 2 === 0 ? kept : undefined))
    const [first] = loads
    await expect.poll(() => first?.versions.get('1') ?? 0).toBeGreaterThan(20)
    server.child.kill('SIGHUP')
    await expect.poll(() => first?.versions.get('2') ?? 0).toBeGreaterThan(20)
    const answered = await Promise.all(loads.map(({ stop }) => stop()))
    expect(answered.every((versions) => (versions.get('2') ?? 0) > 0)).toBe(true)
    expect(await server.exited).toEqual([0, null])
    kept.destroy()
    expect(server.lines.find(({ successor }) => successor)?.successor?.version).toBe('2')
    // The successor also hands over.
    const second = server.lines.find(({ version, pid }) => version === '2' && pid !== undefined)
    signal(second?.pid, 'SIGHUP')
    await expect.poll(async () => (await send(server.port)).text).toBe('{"version":"3"}')
  })

  it('finishes an upload, ends followers, and closes each kept connection with a response', async () => {
    await using server = await runningServer('1')
    const kept = new Agent({ keepAlive: true, maxSockets: 1 })
    expect((await send(server.port, { agent: kept })).connection).toBe('keep-alive')
    const follower = send(server.port, { path: '/follow' })
    const upload = request({ host: '127.0.0.1', port: server.port, method: 'PUT', agent: false })
    const hash = createHash('sha256')
    const write = async (megabytes: number) => {
      for (let count = 0; count < megabytes; count++) {
        const chunk = randomBytes(1 << 20)
        hash.update(chunk)
        if (!upload.write(chunk)) await once(upload, 'drain')
      }
    }
    await write(20)
    server.child.kill('SIGHUP')
    await expect.poll(() => server.lines.some(({ successor }) => successor !== undefined)).toBe(true)
    // It reconnects with its last position.
    expect((await follower).text).toBe('id: 1\n\n')
    expect(JSON.parse((await send(server.port)).text)).toEqual({ version: '2' })
    await write(20)
    upload.end()
    const [response] = (await once(upload, 'response')) as [import('node:http').IncomingMessage]
    expect(response.headers.connection).toBe('close')
    let text = ''
    for await (const chunk of response) text += chunk
    expect(JSON.parse(text)).toEqual({ version: '1', hash: hash.digest('hex') })
    await server.exited
    kept.destroy()
  })

  it.each([
    ['throws', 'The new server cannot start: the schema is upside down\nthe start has begun'],
    ['exits', 'The new server ended before it was ready (exit status 3).\nthe start has begun'],
    ['hangs', 'The new server did not become ready within 15 s.\nthe start has begun'],
  ])('to a server that %s fails with the reason, and the previous server continues', async (failure, reason) => {
    await using server = await runningServer('1', failure)
    const running = load(server.port)
    server.child.kill('SIGHUP')
    await expect.poll(() => server.lines.find(({ error }) => error)?.error).toBe(reason)
    const before = running.versions.get('1') ?? 0
    await expect.poll(() => running.versions.get('1') ?? 0).toBeGreaterThan(before + 20)
    expect([...(await running.stop()).keys()]).toEqual(['1'])
    expect(server.child.exitCode).toBe(null)
  })
})

it('a successor gives up on a server that hangs and never hands over', async () => {
  const source = fileURLToPath(new URL('../../../server/src/platform/handover.ts', import.meta.url))
  // A minute passes at once.
  const code = `import { mock } from 'node:test'
    mock.timers.enable({ apis: ['setTimeout'] })
    const { receiveTakeover } = await import(${JSON.stringify(source)})
    const failed = receiveTakeover('2').catch((error) => process.stdout.write(error.message))
    setImmediate(() => mock.timers.tick(60_000))
    await failed
    process.disconnect()`
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  try {
    expect(await text(child.stdout as Readable)).toBe('The server that is to hand over has not answered for 60 s.')
  } finally {
    child.kill('SIGKILL')
  }
})
