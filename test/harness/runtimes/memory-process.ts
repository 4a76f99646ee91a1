import { EventEmitter } from 'node:events'
import * as fs from 'node:fs'
import * as http from 'node:http'
import { createRequire, isBuiltin } from 'node:module'
import * as net from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { format } from 'node:util'
import { compileFunction } from 'node:vm'
import { folderRunnerName } from '../../../server/src/platform/toolchain.ts'
import type { Exit } from '../../../server/src/runtimes/runtime.ts'
import { type ExampleProcess, startExample } from './example-process.ts'

/*
 * Node programs that run inside the test's process. A program is CommonJS. It may listen, use timers, print, read its
 * variables and its standard input, react to SIGTERM and exit. A deployment then costs no process.
 */

interface Options {
  readonly variables: Readonly<Record<string, string>>
  readonly directory: string
  readonly stdin: Readable | null
  readonly print: (text: string) => Promise<void>
  readonly printError: (text: string) => Promise<void>
}

/**
 * Ends the program where it stands, as `process.exit` does. A promise that is not awaited may still throw it in the
 * server.
 */
export class Ended extends Error {}

/**
 * Starts `node FILE`, `node -e CODE`, `npm start`, `npm run NAME`, `echo`, `true` or `false`, also in a subfolder or by
 * `/bin/sh -c`. `npm install` and `npm ci` do nothing. `startExample` starts all other commands.
 */
export function startInMemory(argv: readonly string[], options: Options): ExampleProcess {
  const [program = '', first = '', ...rest] = argv
  if (program === folderRunnerName)
    return startInMemory(rest, { ...options, directory: join(options.directory, first) })
  if (program === 'npm' && (first === 'start' || first === 'run')) {
    const name = first === 'start' ? 'start' : rest.find((word) => !word.startsWith('-'))
    const { scripts = {} } = JSON.parse(fs.readFileSync(join(options.directory, 'package.json'), 'utf8'))
    const words = String(scripts[name ?? ''] ?? 'missing-script').split(' ')
    return startInMemory(words, options)
  }
  if (program === 'npm') return runCode('', [], options)
  if (program === '/bin/sh') {
    const words = simpleLine(rest[0] ?? '')
    if (words !== undefined) return startInMemory(words, options)
  }
  if (program === 'echo') return runCode(`console.log(${JSON.stringify(argv.slice(1).join(' '))})`, [], options)
  if (program === 'true' || program === 'false')
    return runCode(`process.exit(${program === 'true' ? 0 : 1})`, [], options)
  if (program === 'node' && first === '-e') return runCode(rest[0] ?? '', rest.slice(1), options)
  const file = join(options.directory, first)
  if (program === 'node' && first !== '' && fs.existsSync(file)) return runFile(file, rest, options)
  return startExample(argv, options)
}

/** Returns a copy of `fs` that resolves relative paths against a folder: the working directory of the program. */
function relativeTo<Module extends object>(directory: string, module: Module): Module {
  const own = Object.entries(module).map(([name, value]) => {
    if (typeof value !== 'function' || /^[A-Z]/.test(name)) return [name, value]
    const call = (path: unknown, ...rest: readonly unknown[]) =>
      value.call(module, typeof path === 'string' ? resolve(directory, path) : path, ...rest)
    return [name, call]
  })
  return Object.fromEntries(own)
}

/** Splits a command line into words; returns `undefined` for syntax that needs a shell. */
const simpleLine = (line: string): string[] | undefined =>
  /[^\w ./-]/.test(line) ? undefined : line.replace(/^exec /, '').split(' ')

const runFile = (file: string, args: readonly string[], options: Options) =>
  run(file, fs.readFileSync(file, 'utf8'), args, options)

const runCode = (code: string, args: readonly string[], options: Options) =>
  run(join(options.directory, '[eval]'), code, args, options)

function run(file: string, code: string, args: readonly string[], options: Options): ExampleProcess {
  const ended = Promise.withResolvers<Exit>()
  const ports = new Set<number>()
  const servers = new Set<net.Server>()
  const timers = new Set<NodeJS.Timeout>()
  let isRunning = true
  let isReading = false
  // Lines reach the log in order, and before the end.
  let printed = Promise.resolve()
  const write = (to: (text: string) => Promise<void>) => (text: string) => {
    if (isRunning) printed = printed.then(() => to(text)).catch(() => undefined)
    return true
  }
  const stdout = write(options.print)
  const stderr = write(options.printError)
  const end = (code: number | null, signal: string | null) => {
    if (!isRunning) return
    isRunning = false
    ports.clear()
    for (const timer of timers) clearTimeout(timer)
    for (const server of servers) {
      server.close()
      if (server instanceof http.Server) server.closeAllConnections()
    }
    void printed.then(() => ended.resolve({ code, signal, exceeded: null }))
  }
  const fail = (error: unknown) => {
    if (error instanceof Ended) return
    stderr(`${error instanceof Error ? error.stack : String(error)}\n`)
    end(1, null)
  }
  /** Calls a function of the program. An error of the function ends the program. */
  const guard =
    <Args extends unknown[]>(call: (...args: Args) => unknown) =>
    (...args: Args): void => {
      if (!isRunning) return
      try {
        const result = call(...args)
        if (result instanceof Promise) result.catch(fail)
      } catch (error) {
        fail(error)
      }
    }

  /** Guards all listeners of the program, which may also exit. */
  const guardEvents = <Emitter extends EventEmitter>(emitter: Emitter): Emitter => {
    const emit = emitter.emit.bind(emitter)
    emitter.emit = (...given: Parameters<typeof emit>) => {
      let isHeard = true
      guard(() => {
        isHeard = emit(...given)
      })()
      return isHeard
    }
    return emitter
  }

  const track = <Server extends net.Server>(server: Server): Server => {
    servers.add(server)
    server.on('listening', () => {
      const address = server.address()
      if (address !== null && typeof address === 'object') ports.add(address.port)
    })
    server.on('error', fail)
    server.on('close', () => {
      servers.delete(server)
      endWhenIdle()
    })
    return server
  }
  const createServer = (...given: readonly unknown[]) => {
    const listener = given.find((each) => typeof each === 'function') as http.RequestListener | undefined
    const server = http.createServer()
    server.on('request', (request, response) => {
      guardEvents(request)
      guardEvents(response)
    })
    if (listener !== undefined) server.on('request', guard(listener))
    return track(server)
  }
  const ownModules: Readonly<Record<string, unknown>> = {
    fs: relativeTo(options.directory, fs),
    'fs/promises': relativeTo(options.directory, fs.promises),
    http: { ...http, createServer },
    net: { ...net, createServer: (...given: Parameters<typeof net.createServer>) => track(net.createServer(...given)) },
    timers: {},
  }

  const keep = (timer: NodeJS.Timeout) => {
    timers.add(timer)
    return timer
  }
  const clear = (timer: NodeJS.Timeout | undefined) => {
    if (timer === undefined) return
    timers.delete(timer)
    clearTimeout(timer)
    endWhenIdle()
  }
  const globals = {
    setInterval: (call: () => unknown, ms?: number) => keep(setInterval(guard(call), ms)),
    setTimeout(call: () => unknown, ms?: number) {
      const timer: NodeJS.Timeout = setTimeout(() => {
        timers.delete(timer)
        guard(call)()
        endWhenIdle()
      }, ms)
      return keep(timer)
    },
    clearInterval: clear,
    clearTimeout: clear,
    console: {
      log: (...words: unknown[]) => void stdout(`${format(...words)}\n`),
      error: (...words: unknown[]) => void stderr(`${format(...words)}\n`),
    },
  }
  const events = new EventEmitter()
  const stdin = options.stdin === null ? null : guardEvents(options.stdin.pipe(new PassThrough()))
  const program = {
    env: { NODE_ENV: 'production', ...options.variables } as Record<string, string>,
    argv: file.endsWith('[eval]') ? ['node', ...args] : ['node', file, ...args],
    pid: 1,
    platform: 'linux',
    version: process.version,
    versions: process.versions,
    uptime: () => process.uptime(),
    memoryUsage: process.memoryUsage,
    nextTick: (call: () => void) => process.nextTick(guard(call)),
    cwd: () => options.directory,
    exit(code = 0): never {
      end(code, null)
      throw new Ended()
    },
    kill: (_: number, signal: string) => end(null, signal),
    on: (name: string, call: (...args: unknown[]) => void) => {
      events.on(name, guard(call))
      return program
    },
    once: (name: string, call: (...args: unknown[]) => void) => program.on(name, call),
    stdout: { write: stdout, isTTY: false },
    stderr: { write: stderr, isTTY: false },
    get stdin() {
      isReading = true
      return stdin
    },
  }

  const loaded = new Map<string, { exports: unknown }>()
  const load = (path: string, text: string): unknown => {
    const module = { exports: {} as unknown }
    loaded.set(path, module)
    const parameters = ['require', 'module', 'exports', 'process', '__filename', '__dirname', ...Object.keys(globals)]
    const compiled = compileFunction(text.replace(/^#!.*/, ''), parameters, { filename: path })
    compiled(requireFrom(path), module, module.exports, program, path, dirname(path), ...Object.values(globals))
    return module.exports
  }
  const requireFrom = (path: string) => {
    const real = createRequire(path)
    return (name: string): unknown => {
      const builtin = name.replace(/^node:/, '')
      if (builtin === 'process') return program
      if (isBuiltin(name)) return ownModules[builtin] ?? real(name)
      const found = real.resolve(name)
      if (found.endsWith('.json')) return JSON.parse(fs.readFileSync(found, 'utf8'))
      return loaded.get(found)?.exports ?? load(found, fs.readFileSync(found, 'utf8'))
    }
  }

  const isIdle = () => timers.size === 0 && servers.size === 0 && !isReading
  /**
   * A program without servers and timers ends after a delay, in which pending work such as reading a file can continue.
   */
  function endWhenIdle(rounds = 20): void {
    if (!isRunning || !isIdle()) return
    if (rounds === 0) end(0, null)
    else setImmediate(() => endWhenIdle(rounds - 1))
  }

  stdin?.on('end', () => {
    isReading = false
    endWhenIdle()
  })
  guard(() => load(file, code))()
  endWhenIdle()
  return {
    exited: ended.promise,
    ports,
    isRunning: () => isRunning,
    terminate: () => {
      if (!events.emit('SIGTERM', 'SIGTERM')) end(null, 'SIGTERM')
    },
    kill: () => end(null, 'SIGKILL'),
  }
}
