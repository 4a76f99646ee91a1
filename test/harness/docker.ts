import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { access, chmod, copyFile, mkdir, open, readFile, rm, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { createEngine, type Engine } from '../../server/src/runtimes/docker/client.ts'
import { readJsonLines } from '../../server/src/runtimes/docker/streams.ts'
import { isRoot, temporaryDirectory } from './temporary.ts'

/*
 * A Docker engine for tests: a separate dockerd with its data, sockets and networks, and an image made of files of this
 * machine.
 */

const run = promisify(execFile)
const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const worker = (Number(process.env['FIRST_WORKER'] ?? 1) + Number(process.env['VITEST_POOL_ID'] ?? 1) - 2) % 8

export interface TestDockerd extends AsyncDisposable {
  readonly engine: Engine
  readonly host: string
  /** The folder with the engine's data. */
  readonly directory: string
  pid(): number
  /** Ends the engine by a signal, and resolves when it has ended. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Starts the engine again after its end. */
  start(): Promise<void>
  /** Returns the engine's log. */
  log(): Promise<string>
}

export interface DockerdOptions {
  /** True when containers keep running while the engine is stopped. */
  readonly liveRestore?: boolean
  readonly args?: readonly string[]
}

/** Returns why no engine can start here; null when one can. */
export async function noDocker(): Promise<string | null> {
  if (!isRoot) return 'the tests do not run as root'
  for (const program of ['dockerd', 'containerd', 'runc', 'iptables']) {
    if ((await find(program)) === null) return `${program} is missing`
  }
  try {
    await using _ = await startDockerd()
    return null
  } catch (error) {
    return `dockerd cannot start: ${error instanceof Error ? error.message.slice(-300) : String(error)}`
  }
}

async function find(program: string): Promise<string | null> {
  for (const folder of path.split(':')) {
    const candidate = join(folder, program)
    if (await access(candidate, constants.X_OK).then(...yesOrNo)) return candidate
  }
  return null
}
const yesOrNo = [() => true, () => false] as const

/** Starts an engine without images and containers. At the end, the engine and its containers are removed completely. */
export async function startDockerd({ liveRestore = false, args = [] }: DockerdOptions = {}): Promise<TestDockerd> {
  await using cleanup = new AsyncDisposableStack()
  const folder = cleanup.use(await temporaryDirectory())
  const directory = folder.path
  const socket = join(directory, 'docker.sock')
  const engine = createEngine(socket)
  let dockerd: ChildProcess | null = null

  const kill = async (signal: NodeJS.Signals): Promise<void> => {
    if (dockerd === null) return
    const ended = dockerd
    dockerd = null
    if (ended.exitCode !== null || ended.signalCode !== null) return
    const exit = once(ended, 'exit')
    ended.kill(signal)
    await exit
    await untilEnded(join(directory, 'exec', 'containerd', 'containerd.pid'))
  }
  const readLog = () => readFile(join(directory, 'log'), 'utf8').catch(() => '')
  /** Resolves with the log since the start. */
  const startOnce = async (): Promise<string> => {
    await kill('SIGTERM')
    // A killed engine has left it.
    await rm(join(directory, 'pid'), { force: true })
    const before = await readLog()
    await using output = await open(join(directory, 'log'), 'a')
    dockerd = spawn('dockerd', [...dockerdArguments(directory, liveRestore), ...args], {
      env: { PATH: path, HOME: directory },
      stdio: ['ignore', output.fd, output.fd],
    })
    await untilAnswering(engine, dockerd, join(directory, 'log'))
    return (await readLog()).slice(before.length)
  }
  const start = async (): Promise<void> => {
    for (let attempts = 10; ; attempts -= 1) {
      try {
        // Two engines that start at once create the same iptables chains. One engine then fails, or fails to restore a
        // network.
        if (!(await startOnce()).includes('while booting up from persistent state') || attempts === 1) return
      } catch (error) {
        if (attempts === 1 || !String(error).includes('iptables')) throw error
      }
    }
  }
  cleanup.defer(() => removeLeftovers(directory))
  cleanup.defer(async () => {
    if (dockerd === null || dockerd.exitCode !== null) await start()
    await removeAll(engine)
    await kill('SIGTERM')
  })
  await start()
  const owned = cleanup.move()
  return {
    engine,
    host: `unix://${socket}`,
    directory,
    kill,
    start,
    pid: () => dockerd?.pid ?? 0,
    log: readLog,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Each worker of a run has its address ranges, and the engine creates no bridge that other engines share. */
function dockerdArguments(directory: string, liveRestore: boolean): string[] {
  return [
    ...['--host', `unix://${join(directory, 'docker.sock')}`, '--pidfile', join(directory, 'pid')],
    ...['--data-root', join(directory, 'data'), '--exec-root', join(directory, 'exec')],
    ...['--bridge', 'none', '--default-address-pool', `base=10.${200 + worker}.0.0/16,size=24`],
    ...['--default-ulimit', 'nofile=1024:4096', '--shutdown-timeout', '5'],
    ...(liveRestore ? ['--live-restore'] : []),
  ]
}

/**
 * The engine's containerd ends a moment after the engine. A new engine would connect to the old containerd until then.
 */
async function untilEnded(pidFile: string): Promise<void> {
  const pid = await readFile(pidFile, 'utf8').catch(() => null)
  while (pid !== null && (await access(`/proc/${pid.trim()}`).then(...yesOrNo))) await sleep(20)
}

async function untilAnswering(engine: Engine, dockerd: ChildProcess, log: string): Promise<void> {
  const failed = once(dockerd, 'error').catch(() => undefined)
  for (const deadline = Date.now() + 60_000; ; ) {
    const isOver = dockerd.exitCode !== null || dockerd.signalCode !== null || Date.now() > deadline
    if (isOver) {
      dockerd.kill('SIGKILL')
      throw new Error((await readFile(log, 'utf8')).slice(-1_000))
    }
    if (await engine.version().then(...yesOrNo)) return
    await Promise.race([sleep(50), failed])
  }
}

/** Removes the containers, and the networks with their bridges and rules. */
async function removeAll(engine: Engine): Promise<void> {
  const containers = await engine.call<{ Id: string }[]>({
    method: 'GET',
    path: ['containers', 'json'],
    query: { all: true },
  })
  for (const { Id } of containers) {
    const query = { force: true, v: true }
    await engine.call({ method: 'DELETE', path: ['containers', Id], query }).catch(() => undefined)
  }
  const networks = await engine.call<{ Id: string; Name: string }[]>({ method: 'GET', path: ['networks'] })
  for (const { Id, Name } of networks) {
    if (['bridge', 'host', 'none'].includes(Name)) continue
    await engine.call({ method: 'DELETE', path: ['networks', Id] }).catch(() => undefined)
  }
}

/** Ends what the engine has left below its folder: mounts, and its containerd after a kill. */
async function removeLeftovers(directory: string): Promise<void> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' ')[1] ?? '')
  for (const mount of mounts.filter((each) => each.startsWith(`${directory}/`)).reverse()) {
    await run('umount', ['--lazy', mount], { env: { PATH: path } }).catch(() => undefined)
  }
}

export const baseImage = 'fairlead-test/base:latest'

/** The programs of the base image, besides Node. */
const programs = [
  'dash',
  'stty',
  'sleep',
  'cat',
  'echo',
  'ls',
  'id',
  'env',
  'mkdir',
  'rm',
  'dd',
  'head',
  'true',
  'tr',
  'ln',
]

/**
 * Makes an image with Node, a shell and a few programs of this machine, with `files` in `/app`, the working directory.
 *
 * @param changes instructions as in a Dockerfile, such as `USER 1000`
 */
export async function importBaseImage(
  engine: Engine,
  files: Readonly<Record<string, string>> = {},
  {
    name = baseImage,
    changes = [],
    others = null,
    more = [],
    setuid = [],
  }: {
    readonly name?: string
    readonly changes?: readonly string[]
    /** The programs of a smaller image, which replace Node and the usual programs. */
    readonly others?: readonly string[] | null
    readonly more?: readonly string[]
    /** The names of setuid-root programs. */
    readonly setuid?: readonly string[]
  } = {},
): Promise<void> {
  await using staging = await temporaryDirectory()
  const root = join(staging.path, 'root')
  await stage(root, files, others, more)
  for (const name of setuid) await chmod(join(root, 'bin', name), 0o4755)
  const tar = spawn('tar', ['-C', root, '-cf', '-', '.'], { stdio: ['ignore', 'pipe', 'inherit'] })
  await importTar(engine, name, tar.stdout, ['WORKDIR /app', 'ENV PATH=/bin', ...changes])
}

/** Makes an image of the files in an archive. */
export async function importTar(
  engine: Engine,
  name: string,
  archive: Readable,
  changes: readonly string[],
): Promise<void> {
  const [repo, tag] = name.split(':')
  const answer = await engine.open({
    method: 'POST',
    path: ['images', 'create'],
    query: { fromSrc: '-', repo, tag, changes },
    upload: archive,
    timeoutMs: 600_000,
  })
  for await (const line of readJsonLines<{ error?: string }>(answer)) {
    if (line.error !== undefined) throw new Error(line.error)
  }
}

/** Makes another image from the base image, with instructions as in a Dockerfile. The images share their files. */
export async function changeImage(engine: Engine, name: string, changes: readonly string[]): Promise<void> {
  const [repo, tag] = name.split(':')
  const create = { method: 'POST', path: ['containers', 'create'], body: { Image: baseImage, Cmd: ['true'] } } as const
  const { Id } = await engine.call<{ Id: string }>(create)
  const query = { container: Id, repo, tag, changes }
  await engine.call({ method: 'POST', path: ['commit'], query, body: {} })
  await engine.call({ method: 'DELETE', path: ['containers', Id] })
}

async function stage(
  root: string,
  files: Readonly<Record<string, string>>,
  others: readonly string[] | null,
  more: readonly string[],
): Promise<void> {
  for (const folder of ['bin', 'app', 'tmp', 'etc', 'proc', 'sys', 'dev']) {
    await mkdir(join(root, folder), { recursive: true, mode: 0o755 })
  }
  const found = (await Promise.all([...(others ?? programs), ...more].map(find))).filter((each) => each !== null)
  const sources = others === null ? [process.execPath, ...found] : found
  const needed = new Set<string>()
  for (const source of sources) {
    await copyFile(source, join(root, 'bin', source.slice(dirname(source).length + 1)))
    for (const library of await librariesOf(source)) needed.add(library)
  }
  await symlink(others?.[0] ?? 'dash', join(root, 'bin', 'sh'))
  for (const library of needed) {
    await mkdir(join(root, dirname(library)), { recursive: true })
    await copyFile(library, join(root, library))
  }
  await Promise.all(Object.entries(files).map(([name, text]) => write(join(root, 'app', name), text)))
  await write(join(root, 'etc', 'passwd'), 'root:x:0:0:root:/:/bin/sh\nnode:x:1000:1000:node:/tmp:/bin/sh\n')
}

async function write(file: string, text: string): Promise<void> {
  await using handle = await open(file, 'w', 0o644)
  await handle.writeFile(text)
}

/** Returns the shared libraries of a program and its loader, by their paths on this machine. */
async function librariesOf(program: string): Promise<string[]> {
  const { stdout } = await run('ldd', [program], { env: { PATH: path } }).catch(() => ({ stdout: '' }))
  return [...stdout.matchAll(/(\/\S+) \(0x/g)].map(([, library]) => library ?? '')
}
