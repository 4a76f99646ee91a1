import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type FileHandle, mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Command } from '../../../server/src/platform/command.ts'
import type {
  AttachRequest,
  Exit,
  Handle,
  Observation,
  Release,
  Runtime,
} from '../../../server/src/runtimes/runtime.ts'
import { addressOf } from '../addresses.ts'
import { temporaryDirectory } from '../temporary.ts'

/*
 * The contract of a runtime as tests: `describeRuntime` checks any implementation of `server/src/runtimes/runtime.ts`.
 * A runtime under test must be able to run `node app.js <behaviour>` for the behaviours of `conformingApp`.
 */

/** A runtime under test. */
export interface RuntimeHost extends AsyncDisposable {
  /**
   * Makes the runtime as a server does at its start: it has no memory of instances that another runtime has started.
   */
  newRuntime(): Runtime
  /**
   * For a runtime whose releases are images, which build commands do not change: makes the image of a release from the
   * conforming app. Such a runtime serves no folders.
   */
  makeImage?(release: Release): Promise<void>
}

/** The program of all releases in these tests. */
export const conformingApp = `const { createServer } = require('node:http')
const [, , behaviour, ...args] = process.argv
const { PORT, GREETING } = process.env
const listen = (port) => createServer((_, response) => response.end(JSON.stringify({ PORT, GREETING }))).listen(port, () => console.log('ready'))
const wait = () => setInterval(() => {}, 60_000)
const behaviours = {
  listens: () => {
    listen(Number(PORT))
    process.once('SIGTERM', () => { console.log('goodbye'); process.exit(0) })
  },
  'ignores-sigterm': () => {
    process.on('SIGTERM', () => console.log('no'))
    listen(Number(PORT))
  },
  'listens-elsewhere': () => listen(Number(PORT) + 1),
  waits: () => { console.log('waiting'); wait() },
  exits: () => process.exit(Number(args[0])),
  variables: () => console.log(JSON.stringify({ PORT, GREETING })),
  keeps: () => {
    const notes = process.env.FAIRLEAD_VOLUME_MY_DATA + '/notes'
    require('node:fs').appendFileSync(notes, args[0] + ' ')
    console.log('notes ' + require('node:fs').readFileSync(notes))
    listen(Number(PORT))
  },
  writes: () => require('node:fs').writeFileSync(args[0], Buffer.alloc(Number(args[1]), 1)),
  echoes: () => {
    console.error('an error line')
    process.stdin.pipe(process.stdout)
    process.stdin.on('end', () => { process.exitCode = 3 })
  },
}
behaviours[behaviour]()
`

const app = (...args: string[]): Command => ({ argv: ['node', 'app.js', ...args] })
const never = new AbortController().signal
const succeeded: Exit = { code: 0, signal: null, exceeded: null }

type OutputFile = AsyncDisposable & {
  readonly handle: FileHandle
  read(): Promise<string>
  /** Opens the same file again, as a later server does. */
  reopen(): Promise<OutputFile>
}

/** Tests the whole contract with the runtimes that `openHost` makes, including volumes if the runtime has them. */
export function describeRuntime(
  name: string,
  openHost: () => Promise<RuntimeHost>,
  { volumes = false }: { readonly volumes?: boolean } = {},
): void {
  describe(`the runtime ${name}`, () => {
    let host: RuntimeHost
    let runtime: Runtime
    const files = new AsyncDisposableStack()
    let directory: string
    let apps = 0

    beforeAll(async () => {
      host = await openHost()
      runtime = host.newRuntime()
      directory = files.use(await temporaryDirectory()).path
    })
    afterAll(async () => {
      await host?.[Symbol.asyncDispose]()
      await files.disposeAsync()
    })

    const newRelease = (appId?: string): Release => {
      apps += 1
      return {
        id: `dep_${randomUUID()}`,
        appId: appId ?? `app_${randomUUID()}`,
        appNumber: apps,
        projectId: 'proj_1',
        internalName: 'app',
        limits: { memoryBytes: 512_000_000, cpus: 1, diskBytes: 8e9 },
        variables: { GREETING: 'hello', PORT: '1' },
      }
    }

    /** Makes a release with the conforming app as its sources. */
    const prepared = async (appId?: string): Promise<Release> => {
      const release = newRelease(appId)
      const sources = await runtime.builder.prepare(release)
      await writeFile(join(sources, 'app.js'), conformingApp)
      await runtime.builder.seal(release, never)
      await host.makeImage?.(release)
      return release
    }

    const outputFile = async (path = join(directory, `${randomUUID()}.log`)): Promise<OutputFile> => {
      const handle = await open(path, 'a', 0o600)
      const read = () => readFile(path, 'utf8')
      return { handle, read, reopen: () => outputFile(path), [Symbol.asyncDispose]: () => handle.close() }
    }

    const start = async (behaviour: string, ...args: string[]) => {
      const release = await prepared()
      await using output = await outputFile()
      const handle = await runtime.instances.start(release, app(behaviour, ...args), output.handle)
      return { release, handle, read: output.read, reopen: output.reopen }
    }

    const until = <State extends Observation['state']>(by: Runtime, handle: Handle, state: State) =>
      vi.waitFor(
        async () => {
          const seen = await by.instances.observe(handle)
          if (seen.state !== state) throw new Error(`still ${JSON.stringify(seen)}`)
          return seen as Extract<Observation, { state: State }>
        },
        { timeout: 30_000, interval: 10 },
      )

    const answerOf = async (seen: Extract<Observation, { state: 'listening' }>) => {
      const { host: address, port } = addressOf(seen)
      const hostname = address.includes(':') ? `[${address}]` : address
      return (await fetch(`http://${hostname}:${port}/`)).json()
    }

    describe('a copy of a release', () => {
      it('has the files of the original, which may run, and shares none of them', async () => {
        const { release: from, handle } = await start('listens')
        await until(runtime, handle, 'listening')
        const copy = newRelease()
        if (!runtime.capabilities.copies) {
          await expect(runtime.builder.copy(from, copy, never)).rejects.toMatchObject({ code: 'no_sandbox' })
          await runtime.instances.stop(handle, { graceMs: 0 })
          return
        }
        await runtime.builder.copy(from, copy, never)
        const sizeOf = (release: Release) => runtime.releases.diskUsage(release, 'files')
        const before = await sizeOf(from)
        expect(await sizeOf(copy)).toBe(before)
        await using log = await outputFile()
        const options = { output: log.handle, signal: never, toolchain: 'kept' } as const
        const wrote = await runtime.builder.build(copy, options, (run) => run(app('writes', 'app.js', '100000'), never))
        expect(wrote).toEqual(succeeded)
        if (host.makeImage === undefined) expect(await sizeOf(copy)).toBeGreaterThan(before + 50_000)
        expect(await sizeOf(from)).toBe(before)
        await runtime.releases.remove(from)
        expect(await runtime.releases.isMade(copy)).toBe(true)
        await runtime.instances.stop(handle, { graceMs: 0 })
        for (const release of [from, copy]) await runtime.releases.remove(release)
      })

      it('that is aborted rejects with the reason', async () => {
        const reason = new Error('canceled')
        const copying = runtime.builder.copy(await prepared(), newRelease(), AbortSignal.abort(reason))
        await expect(copying).rejects.toBe(reason)
      })
    })

    if (volumes) {
      it('keeps a volume over releases of its app, visible to the app’s instances and commands, and hidden from other apps', async () => {
        const appId = `app_${randomUUID()}`
        const keep = async (note: string, of: string) => {
          const release = { ...(await prepared(of)), volumes: { 'my-data': '/data' } }
          await using output = await outputFile()
          const handle = await runtime.instances.start(release, app('keeps', note), output.handle, { beside: true })
          await until(runtime, handle, 'listening')
          // A container's output arrives a moment after the container has printed it.
          await expect.poll(() => output.read()).toContain('notes')
          return { release, handle, printed: await output.read() }
        }
        const first = await keep('one', appId)
        expect(first.printed).toContain('notes one \n')
        const shared = await runtime.releases.diskUsage(first.release, 'shared')
        const second = await keep('two', appId)
        expect(second.printed).toContain('notes one two \n')
        const other = await keep('three', `app_${randomUUID()}`)
        expect(other.printed).toContain('notes three \n')

        const write = `require('node:fs').writeFileSync(process.env.FAIRLEAD_VOLUME_MY_DATA + '/more', Buffer.alloc(500_000, 1))`
        const request = { argv: ['node', '-e', write] as const, tty: null, signal: never }
        const streams = { stdin: Readable.from([]), stdout: new PassThrough(), stderr: new PassThrough() }
        const exit = await runtime.instances.attach(second.release, second.handle, { ...request, ...streams })
        expect(exit).toEqual(succeeded)
        const grown = (await runtime.releases.diskUsage(second.release, 'shared')) - shared
        expect([grown >= 500_000, grown < 700_000]).toEqual([true, true])

        for (const { release } of [first, second, other]) await runtime.releases.remove(release)
        const third = await keep('four', appId)
        expect(third.printed).toContain('notes one two four \n')
        await runtime.releases.remove(third.release)
        for (const { release } of [third, other]) await runtime.releases.removeApp(release.appId)
        expect(await runtime.releases.diskUsage(third.release, 'shared')).toBe(0)
      })
    }

    describe('a build', () => {
      it('begins with an empty folder for the sources, however often it is prepared', async () => {
        const release = newRelease()
        for (let time = 0; time < 2; time += 1) {
          const sources = await runtime.builder.prepare(release)
          expect(isAbsolute(sources)).toBe(true)
          expect(await readdir(sources)).toEqual([])
          await writeFile(join(sources, 'file'), '')
        }
      })

      it('runs its commands with the variables of the app, and returns their exit codes and the result of its steps', async () => {
        const release = await prepared()
        await using output = await outputFile()
        const result = await runtime.builder.build(release, { output: output.handle, signal: never }, async (run) => {
          expect(await run(app('variables'), never)).toEqual(succeeded)
          expect(await run(app('exits', '7'), never)).toEqual({ code: 7, signal: null, exceeded: null })
          expect(await run({ argv: ['no-such-command'] }, never)).toMatchObject({ code: 127 })
          return 'the result'
        })
        expect(result).toBe('the result')
        const printed = await output.read()
        expect(printed).toContain('{"GREETING":"hello"}')
        expect(printed).toContain('no-such-command')
        // The output stays open for the caller.
        await output.handle.write('more\n')
      })

      it('rejects as its steps do', async () => {
        await using output = await outputFile()
        const building = runtime.builder.build(await prepared(), { output: output.handle, signal: never }, async () => {
          throw new Error('a step failed')
        })
        await expect(building).rejects.toThrow('a step failed')
      })

      it.each(['of the command', 'of the build'])(
        'that is aborted by the signal %s rejects with the reason, and stops all of its processes',
        async (which) => {
          const release = await prepared()
          await using output = await outputFile()
          const abort = new AbortController()
          const reason = new Error('canceled')
          const ofCommand = which === 'of the command' ? abort.signal : never
          const signal = which === 'of the command' ? never : abort.signal
          const building = runtime.builder.build(release, { output: output.handle, signal }, (run) =>
            run(app('waits'), ofCommand),
          )
          const outcome = building.catch((error: unknown) => error)
          await expect.poll(output.read).toContain('waiting')
          abort.abort(reason)
          expect(await outcome).toBe(reason)
          expect((await runtime.releases.list()).running.has(release.id)).toBe(false)
        },
      )

      it('ends commands that its steps do not wait for', async () => {
        const release = await prepared()
        await using output = await outputFile()
        await runtime.builder.build(release, { output: output.handle, signal: never }, async (run) => {
          run(app('waits'), never).catch(() => undefined)
          await expect.poll(output.read).toContain('waiting')
        })
        expect((await runtime.releases.list()).running.has(release.id)).toBe(false)
      })

      it('waits for another build of the same app', async () => {
        const first = await prepared()
        const second = await prepared(first.appId)
        await using output = await outputFile()
        const release = Promise.withResolvers<void>()
        const order: string[] = []
        const build = (which: Release, name: string, done: Promise<void>) =>
          runtime.builder.build(which, { output: output.handle, signal: never }, async () => {
            order.push(`${name} begins`)
            await done
            order.push(`${name} ends`)
          })
        expect(runtime.builder.isBuilding(first.appId)).toBe(false)
        const building = [build(first, 'first', release.promise), build(second, 'second', Promise.resolve())]
        expect(runtime.builder.isBuilding(first.appId)).toBe(true)
        await expect.poll(() => order).toEqual(['first begins'])
        release.resolve()
        await Promise.all(building)
        expect(order).toEqual(['first begins', 'first ends', 'second begins', 'second ends'])
        expect(runtime.builder.isBuilding(first.appId)).toBe(false)
      })
    })

    describe('an instance', () => {
      it('answers at its endpoints, prints to its output, and ends in order when it is stopped', async () => {
        const { handle, read } = await start('listens')
        const seen = await until(runtime, handle, 'listening')
        expect(await answerOf(seen)).toEqual({ PORT: expect.stringMatching(/^\d+$/), GREETING: 'hello' })
        await runtime.instances.stop(handle, { graceMs: 20_000 })
        expect(await runtime.instances.observe(handle)).toEqual({ state: 'exited', ...succeeded })
        await expect.poll(read).toBe('ready\ngoodbye\n')
        await runtime.instances.stop(handle, { graceMs: 0 })
      })

      it('has a handle that names the runtime and survives JSON', async () => {
        const { handle } = await start('listens')
        expect(handle.runtime).toBe(runtime.name)
        const stored = JSON.parse(JSON.stringify(handle)) as Handle
        await until(runtime, stored, 'listening')
        await runtime.instances.stop(stored, { graceMs: 0 })
      })

      it('that does not listen is starting, with its assigned port', async () => {
        const { handle } = await start('waits')
        expect(await runtime.instances.observe(handle)).toEqual({ state: 'starting', port: expect.any(Number) })
        await runtime.instances.stop(handle, { graceMs: 0 })
      })

      it('that listens on another port has the wrong port', async () => {
        const { handle } = await start('listens-elsewhere')
        const { ports, servable, ...seen } = await until(runtime, handle, 'wrong_port')
        expect(seen).toEqual({ state: 'wrong_port', port: expect.any(Number) })
        expect(ports).toEqual([expect.any(Number)])
        // An app in a separate network may use one other port.
        expect([null, ports[0]]).toContain(servable)
        await runtime.instances.stop(handle, { graceMs: 0 })
      })

      it('that exits has its exit code in its state', async () => {
        const { handle } = await start('exits', '7')
        const exited = { state: 'exited', code: 7, signal: null, exceeded: null }
        expect(await until(runtime, handle, 'exited')).toEqual(exited)
      })

      it('whose command does not exist counts as exited, with a line in its output', async () => {
        const release = await prepared()
        await using output = await outputFile()
        const handle = await runtime.instances.start(release, { argv: ['no-such-command'] }, output.handle)
        expect(await until(runtime, handle, 'exited')).toMatchObject({ code: 127 })
        await expect.poll(output.read).toContain('no-such-command')
      })

      it('that ignores the request to end is killed after the grace period', async () => {
        const { handle, read } = await start('ignores-sigterm')
        await until(runtime, handle, 'listening')
        await runtime.instances.stop(handle, { graceMs: 1_000 })
        const killed = { state: 'exited', code: null, signal: 'SIGKILL', exceeded: null }
        expect(await runtime.instances.observe(handle)).toEqual(killed)
        await expect.poll(read).toBe('ready\nno\n')
      })

      it('continues when its stop is aborted', async () => {
        const { handle } = await start('ignores-sigterm')
        await until(runtime, handle, 'listening')
        const abort = new AbortController()
        const stopping = runtime.instances.stop(handle, { graceMs: 60_000, signal: abort.signal })
        abort.abort(new Error('wanted again'))
        await stopping
        expect((await runtime.instances.observe(handle)).state).toBe('listening')
        await runtime.instances.stop(handle, { graceMs: 0 })
      })
    })

    describe('several instances of a release', () => {
      const startBeside = async (release: Release, output: OutputFile) =>
        runtime.instances.start(release, app('ignores-sigterm'), output.handle, { beside: true })

      it('run side by side, and each ends by itself, also for a server that knows them only from the database', async () => {
        const { release, handle } = await start('ignores-sigterm')
        await using output = await outputFile()
        const second = await startBeside(release, output)
        const third = await startBeside(release, output)
        const later = host.newRuntime()
        const seen = await Promise.all([handle, second, third].map((each) => until(later, each, 'listening')))
        const addresses = new Set(seen.map((each) => `${addressOf(each).host}:${addressOf(each).port}`))
        expect(addresses.size).toBe(3)
        await runtime.instances.stop(second, { graceMs: 0 })
        await until(runtime, second, 'exited')
        await later.instances.adopt(release, handle, output.handle)
        await later.instances.stop(handle, { graceMs: 0 })
        await until(later, handle, 'exited')
        const left = await until(runtime, third, 'listening')
        expect(await answerOf(left)).toMatchObject({ GREETING: 'hello' })
        expect((await runtime.releases.list()).running).toContain(release.id)
        await runtime.releases.remove(release)
        await until(runtime, third, 'exited')
        expect((await runtime.releases.list()).running).not.toContain(release.id)
      })

      it('without a handle for one of them are counted, and that instance can be ended separately', async () => {
        const { release, handle } = await start('ignores-sigterm')
        await using output = await outputFile()
        const lost = await startBeside(release, output)
        await Promise.all([handle, lost].map((each) => until(runtime, each, 'listening')))
        // A server that was killed before it had saved the second handle leaves this instance to the next server.
        const { releases } = host.newRuntime()
        expect((await releases.list()).instances.get(release.id)).toBe(2)
        await releases.endOthers(release, [handle])
        await until(runtime, lost, 'exited')
        await expect.poll(async () => (await releases.list()).instances.get(release.id)).toBe(1)
        await until(runtime, handle, 'listening')
        await releases.endOthers(release, [])
        await until(runtime, handle, 'exited')
        await releases.remove(release)
      })

      it('end with their release, even when the server knows none of them', async () => {
        const { release, handle } = await start('ignores-sigterm')
        await using output = await outputFile()
        const second = await startBeside(release, output)
        await Promise.all([handle, second].map((each) => until(runtime, each, 'listening')))
        await host.newRuntime().releases.halt(release)
        await Promise.all([handle, second].map((each) => until(runtime, each, 'exited')))
      })
    })

    describe('a watch', () => {
      it('calls once when the instance has ended, even when it had ended before', async () => {
        const { handle } = await start('listens')
        const onExit = vi.fn()
        runtime.instances.watch(handle, onExit)
        await until(runtime, handle, 'listening')
        expect(onExit).not.toHaveBeenCalled()
        await runtime.instances.stop(handle, { graceMs: 0 })
        await expect.poll(() => onExit.mock.calls.length).toBe(1)
        const again = vi.fn()
        runtime.instances.watch(handle, again)
        await expect.poll(() => again.mock.calls.length).toBe(1)
        expect(onExit).toHaveBeenCalledOnce()
      })

      it('does not call after it was ended', async () => {
        const { handle } = await start('listens')
        const [ended, onExit] = [vi.fn(), vi.fn()]
        runtime.instances.watch(handle, ended)()
        runtime.instances.watch(handle, onExit)
        await runtime.instances.stop(handle, { graceMs: 0 })
        await expect.poll(() => onExit.mock.calls.length).toBe(1)
        expect(ended).not.toHaveBeenCalled()
      })
    })

    describe('a later server', () => {
      it('observes, adopts, watches and stops an instance that it knows only from its handle', async () => {
        const { release, handle, read, reopen } = await start('listens')
        await until(runtime, handle, 'listening')
        await expect.poll(read).toBe('ready\n')
        const later = host.newRuntime()
        await using output = await reopen()
        const stored = JSON.parse(JSON.stringify(handle)) as Handle
        expect(await answerOf(await until(later, stored, 'listening'))).toMatchObject({ GREETING: 'hello' })
        await later.instances.adopt(release, stored, output.handle)
        await later.instances.adopt(release, stored, output.handle)
        const onExit = vi.fn()
        later.instances.watch(stored, onExit)
        await later.instances.stop(stored, { graceMs: 20_000 })
        expect(await later.instances.observe(stored)).toMatchObject({ state: 'exited', exceeded: null })
        await expect.poll(() => onExit.mock.calls.length).toBe(1)
        await expect.poll(read).toBe('ready\ngoodbye\n')
        await later.instances.stop(stored, { graceMs: 0 })
      })

      it('hears of the end of an instance that ended before the watch began', async () => {
        const { handle } = await start('listens')
        await runtime.instances.stop(handle, { graceMs: 0 })
        const onExit = vi.fn()
        host.newRuntime().instances.watch(handle, onExit)
        await expect.poll(() => onExit.mock.calls.length).toBe(1)
      })
    })

    describe('an attached command', () => {
      const request = (argv: AttachRequest['argv'], input: string | Readable, signal = never) => {
        const [stdout, stderr] = [new PassThrough(), new PassThrough()]
        const stdin = typeof input === 'string' ? Readable.from([input]) : input
        const printed = async () => {
          stdout.end()
          stderr.end()
          return { stdout: await text(stdout), stderr: await text(stderr) }
        }
        return { request: { argv, tty: null, stdin, stdout, stderr, signal }, stdout, printed }
      }

      it('reads its input, prints to two outputs, and ends with its code, repeatedly', async () => {
        const { release, handle } = await start('listens')
        for (const input of ['one', 'two\n'.repeat(50_000)]) {
          const { request: asked, printed } = request(app('echoes').argv, input)
          // Read the outputs while writing: their buffers are limited.
          const seen = text(asked.stdout)
          expect(await runtime.instances.attach(release, handle, asked)).toEqual({ ...succeeded, code: 3 })
          expect((await printed()).stderr).toBe('an error line\n')
          expect(await seen).toBe(input)
        }
        await runtime.instances.stop(handle, { graceMs: 0 })
      })

      it('has the variables of the release, and does not affect the instance', async () => {
        const { release, handle } = await start('listens')
        const { request: asked, printed } = request(app('variables').argv, '')
        expect(await runtime.instances.attach(release, handle, asked)).toEqual(succeeded)
        expect(JSON.parse((await printed()).stdout)).toMatchObject({ GREETING: 'hello' })
        await until(runtime, handle, 'listening')
        await runtime.instances.stop(handle, { graceMs: 0 })
      })

      it('has no input when the input has ended before', async () => {
        const { release, handle } = await start('waits')
        const ended = Readable.from([])
        await text(ended)
        const { request: asked, printed } = request(app('echoes').argv, ended)
        expect(await runtime.instances.attach(release, handle, asked)).toMatchObject({ code: 3 })
        expect((await printed()).stdout).toBe('')
        await runtime.instances.stop(handle, { graceMs: 0 })
      })

      it('that does not exist ends with a code and a line', async () => {
        const { release, handle } = await start('waits')
        const { request: asked, printed } = request(['no-such-command'], '')
        expect(await runtime.instances.attach(release, handle, asked)).toMatchObject({ code: 127 })
        expect((await printed()).stderr).toContain('no-such-command')
        await runtime.instances.stop(handle, { graceMs: 0 })
      })

      it('ends when its signal aborts', async () => {
        const { release, handle } = await start('listens')
        const abort = new AbortController()
        const { request: asked, stdout } = request(app('waits').argv, new PassThrough(), abort.signal)
        const attached = runtime.instances.attach(release, handle, asked)
        expect(String(await stdout.take(1).toArray())).toBe('waiting\n')
        abort.abort(new Error('the client is gone'))
        expect((await attached).code).not.toBe(0)
        await until(runtime, handle, 'listening')
        await runtime.instances.stop(handle, { graceMs: 0 })
      })

      it('has a terminal of the given size, and ends with it', async () => {
        if (!runtime.capabilities.terminal) return
        const { release, handle } = await start('listens')
        const keyboard = new PassThrough()
        const abort = new AbortController()
        const changes = (from: string) => `while [ "$(stty size)" = "${from}" ]; do sleep 0.02; done; stty size`
        const script = `${changes('0 0')}; read line; ${changes('33 91')}; echo "got $line"; exit 6`
        const argv: AttachRequest['argv'] = ['sh', '-c', script]
        let resize: ((columns: number, rows: number) => void) | undefined
        const { request: asked, stdout } = request(argv, keyboard, abort.signal)
        const tty = { columns: 91, rows: 33 }
        const onResizable: AttachRequest['onResizable'] = (given) => {
          resize = given
        }
        const attached = runtime.instances.attach(release, handle, { ...asked, tty, onResizable })
        let shown = ''
        stdout.on('data', (bytes) => {
          shown += bytes
        })
        await expect.poll(() => shown).toContain('33 91\r\n')
        resize?.(92, 34)
        keyboard.write('hello\r')
        expect(await attached).toEqual({ ...succeeded, code: 6 })
        expect(shown).toContain('34 92\r\ngot hello\r\n')

        const { request: shell, stdout: screen } = request(['sh', '-i'], new PassThrough(), abort.signal)
        const ended = runtime.instances.attach(release, handle, { ...shell, tty })
        await once(screen, 'data')
        abort.abort(new Error('the client is gone'))
        expect((await ended).code).not.toBe(0)
        await until(runtime, handle, 'listening')
        await runtime.instances.stop(handle, { graceMs: 0 })
      })

      it("with a terminal exchanges more data than the terminal's buffer holds, at the command's pace", async () => {
        if (!runtime.capabilities.terminal) return
        const { release, handle } = await start('waits')
        const keyboard = new PassThrough()
        const argv: AttachRequest['argv'] = ['sh', '-c', 'stty raw -echo; echo ready; head -c 300000; echo done']
        const { request: asked, stdout } = request(argv, keyboard)
        const attached = runtime.instances.attach(release, handle, { ...asked, tty: { columns: 80, rows: 24 } })
        let shown = ''
        stdout.on('data', (bytes) => {
          shown += bytes
        })
        await expect.poll(() => shown).toContain('ready')
        keyboard.write('k'.repeat(300_000))
        expect(await attached).toEqual(succeeded)
        expect(shown.trim()).toMatch(/^ready\s+k{300000}done$/)
        await runtime.instances.stop(handle, { graceMs: 0 })
      })

      it('with a terminal is refused where terminals are not available', async () => {
        if (runtime.capabilities.terminal) return
        const { release, handle } = await start('waits')
        const { request: asked } = request(app('variables').argv, '')
        const attached = runtime.instances.attach(release, handle, { ...asked, tty: { columns: 80, rows: 24 } })
        await expect(attached).rejects.toMatchObject({ name: 'RuntimeError', code: 'no_terminal' })
        await runtime.instances.stop(handle, { graceMs: 0 })
      })
    })

    describe('a static site', () => {
      const serve: Command = { argv: ['fairlead-static', 'site'] }
      beforeEach(({ skip }) => skip(host.makeImage !== undefined, 'a container serves no folder'))
      const startSite = async () => {
        const release = newRelease()
        const sources = await runtime.builder.prepare(release)
        await mkdir(join(sources, 'site'))
        await writeFile(join(sources, 'site', 'index.html'), 'a page')
        await runtime.builder.seal(release, never)
        await using output = await outputFile()
        return { release, handle: await runtime.instances.start(release, serve, output.handle) }
      }

      it('is listening at its folder, also for another server, until it is stopped', async () => {
        const { release, handle } = await startSite()
        const later = host.newRuntime()
        await using output = await outputFile()
        await later.instances.adopt(release, handle, output.handle)
        const ended = new Promise<void>((resolve) => void later.instances.watch(handle, resolve))
        const { endpoints } = await until(later, handle, 'listening')
        const [endpoint] = endpoints
        const folder = 'folder' in endpoint ? endpoint.folder : ''
        expect(await readFile(join(folder, 'index.html'), 'utf8')).toBe('a page')
        expect((await runtime.releases.list()).running.has(release.id)).toBe(true)
        await runtime.instances.stop(handle, { graceMs: 0 })
        await ended
        expect(await later.instances.observe(handle)).toMatchObject({ state: 'exited' })
        expect((await runtime.releases.list()).running.has(release.id)).toBe(false)
      })

      it('ends when its release is halted, and can be started again as another instance', async () => {
        const { release, handle } = await startSite()
        await host.newRuntime().releases.halt(release)
        await using output = await outputFile()
        const again = await runtime.instances.start(release, serve, output.handle)
        expect(await runtime.instances.observe(handle)).toMatchObject({ state: 'exited' })
        await until(runtime, again, 'listening')
        await runtime.releases.remove(release)
        expect(await runtime.instances.observe(again)).toMatchObject({ state: 'exited' })
      })
    })

    it('measures the usage of an instance, and no usage after its end', async () => {
      const { handle } = await start('listens')
      await until(runtime, handle, 'listening')
      const usage = await runtime.instances.usage(handle)
      expect(usage.memoryBytes).toBeGreaterThan(1_000_000)
      expect(usage.cpuSeconds).toBeGreaterThan(0)
      expect(usage.processes).toBeGreaterThanOrEqual(1)
      await runtime.instances.stop(handle, { graceMs: 0 })
      expect(await runtime.instances.usage(handle)).toEqual({ memoryBytes: 0, cpuSeconds: 0, processes: 0 })
    })

    describe('releases', () => {
      it('are listed with their apps, and as running while they run', async () => {
        const { release, handle } = await start('listens')
        const second = await prepared(release.appId)
        await until(runtime, handle, 'listening')
        const { apps: listed, running } = await runtime.releases.list()
        const own = listed.find(({ id }) => id === release.appId)
        expect(own?.releases.toSorted()).toEqual([release.id, second.id].toSorted())
        expect([running.has(release.id), running.has(second.id)]).toEqual([true, false])
        await runtime.instances.stop(handle, { graceMs: 0 })
        expect((await runtime.releases.list()).running.has(release.id)).toBe(false)
      })

      it('that are halted end, and can be started again', async () => {
        const { release, handle } = await start('listens')
        await until(runtime, handle, 'listening')
        await runtime.releases.halt(release, { graceMs: 20_000 })
        expect(await runtime.instances.observe(handle)).toMatchObject({ state: 'exited' })
        await runtime.releases.halt(release)
        await using output = await outputFile()
        const again = await runtime.instances.start(release, app('listens'), output.handle)
        await until(runtime, again, 'listening')
        await host.newRuntime().releases.halt(release)
        expect(await runtime.instances.observe(again)).toMatchObject({ state: 'exited' })
      })

      it('end and disappear when they are removed, even twice, and so does their app', async () => {
        const { release, handle } = await start('ignores-sigterm')
        await until(runtime, handle, 'listening')
        const releasesOf = async () =>
          (await runtime.releases.list()).apps.find(({ id }) => id === release.appId)?.releases
        for (let time = 0; time < 2; time += 1) {
          await runtime.releases.remove(release)
          expect(await runtime.instances.observe(handle)).toMatchObject({ state: 'exited' })
          expect((await releasesOf()) ?? []).toEqual([])
        }
        for (let time = 0; time < 2; time += 1) {
          await runtime.releases.removeApp(release.appId)
          expect(await releasesOf()).toBeUndefined()
        }
      })

      it('are measured on the disk, separately from the data that the app keeps', async () => {
        const release = await prepared()
        const before = await runtime.releases.diskUsage(release, 'release')
        const shared = await runtime.releases.diskUsage(release, 'shared')
        await using output = await outputFile()
        if (host.makeImage === undefined) {
          await runtime.builder.build(release, { output: output.handle, signal: never }, async (run) => {
            expect(await run(app('writes', 'file', '1000000'), never)).toEqual(succeeded)
          })
        } else {
          const handle = await runtime.instances.start(release, app('writes', 'file', '1000000'), output.handle)
          await until(runtime, handle, 'exited')
        }
        const grown = (await runtime.releases.diskUsage(release, 'release')) - before
        expect([grown >= 1_000_000, grown < 1_200_000]).toEqual([true, true])
        expect((await runtime.releases.diskUsage(release, 'shared')) - shared).toBeLessThan(1_000_000)
        expect(await runtime.releases.diskUsage(release, 'all')).toBe(
          (await runtime.releases.diskUsage(release, 'release')) +
            (await runtime.releases.diskUsage(release, 'shared')),
        )
        expect(await runtime.releases.diskUsage(release, 'release', 1_000)).toBeGreaterThan(1_000)
        await runtime.releases.remove(release)
        expect(await runtime.releases.diskUsage(release, 'release')).toBe(0)
      })
    })
  })
}
