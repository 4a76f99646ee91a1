import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'

export interface Output {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/**
 * A container with a separate systemd, this repository read-only in /opt/fairlead, and only a loopback network unless
 * it gets one.
 */
export interface Machine extends AsyncDisposable {
  /** The root folder, seen from outside. */
  readonly root: string
  /** Runs a program inside, with the environment of a login. */
  run(argv: readonly string[], environment?: Readonly<Record<string, string>>): Promise<Output>
  /** Runs the command `fairlead` inside. */
  fairlead(args: readonly string[], environment?: Readonly<Record<string, string>>): Promise<Output>
}

const repository = fileURLToPath(new URL('../../../', import.meta.url))
/** The command `fairlead`, as programs inside start it. */
export const command = ['/opt/fairlead/node_modules/node/bin/node', '/opt/fairlead/server/bin/fairlead.js'] as const
const packages = ['systemd', 'systemd-sysv', 'dbus', 'git', 'ca-certificates', 'util-linux']
const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const bootTimeoutMs = 120_000

/** Returns why no such machine can run here; `null` when one can. */
export async function noMachine(): Promise<string | null> {
  if (!isRoot) return 'only root can boot a container'
  for (const program of ['mmdebstrap', 'systemd-nspawn']) {
    const found = ['/usr/bin', '/bin'].some((folder) => existsSync(join(folder, program)))
    if (!found) return `${program} is not installed (apt-get install mmdebstrap systemd-container)`
  }
  const { code, stderr } = await execute('unshare', ['--mount', '--pid', '--net', '--fork', 'true'])
  return code === 0 ? null : `namespaces may not be made here (${stderr.trim().split('\n').at(-1)})`
}

/**
 * Makes a small Debian, boots it, and returns when its systemd has started everything.
 *
 * @param options.network the path of a network namespace, for a machine that needs to reach others
 * @param options.prepare called with the root folder before the start
 */
export async function bootMachine(
  options: { readonly network?: string; readonly prepare?: (root: string) => Promise<void> } = {},
): Promise<Machine> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const root = join(directory.path, 'root')
  const made = await execute('mmdebstrap', [
    '--variant=minbase',
    `--include=${packages.join(',')}`,
    await release(),
    root,
  ])
  if (made.code !== 0) throw new Error(`mmdebstrap failed: ${made.stderr.slice(-2000)}`)
  await mkdir(join(root, 'opt', 'fairlead'), { recursive: true })
  await options.prepare?.(root)
  const network = options.network === undefined ? '--private-network' : `--network-namespace-path=${options.network}`
  const flags = ['--boot', '--register=no', '--keep-unit', network, '--console=pipe', '--quiet']
  const container = spawn('systemd-nspawn', ['-D', root, ...flags, `--bind-ro=${repository}:/opt/fairlead`], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  for (const stream of [container.stdout, container.stderr]) {
    stream.on('data', (chunk) => {
      printed += String(chunk)
    })
  }
  const leader = await systemdOf(container, () => printed)
  cleanup.defer(() => end(container, leader))
  const run: Machine['run'] = (argv, environment = {}) =>
    execute('nsenter', [
      '--target',
      String(leader),
      '--all',
      '--wd=/',
      ...['env', '-C', '/', '-i'],
      ...assignments(environment),
      ...argv,
    ])
  await booted(run, () => printed)
  const owned = cleanup.move()
  return {
    root,
    run,
    fairlead: (args, environment) => run([...command, ...args], environment),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const assignments = (environment: Readonly<Record<string, string>>): string[] =>
  Object.entries({ PATH: path, HOME: '/root', ...environment }).map(([name, value]) => `${name}=${value}`)

/** This machine's Debian release, which its mirror certainly has. */
async function release(): Promise<string> {
  const text = await readFile('/etc/os-release', 'utf8')
  return (/^ID=debian$/m.test(text) ? /^VERSION_CODENAME=(\w+)$/m.exec(text)?.[1] : undefined) ?? 'stable'
}

/** Returns the pid of the container's systemd: the child of systemd-nspawn. */
async function systemdOf(container: ChildProcess, printed: () => string): Promise<number> {
  const until = performance.now() + bootTimeoutMs
  while (performance.now() < until && container.exitCode === null) {
    for (const name of await readdir('/proc')) {
      const stat = /^\d+$/.test(name) ? await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '') : ''
      if (stat.startsWith(`${name} (systemd) `) && stat.split(') ')[1]?.split(' ')[1] === String(container.pid)) {
        return Number(name)
      }
    }
    await sleep(100)
  }
  throw new Error(`the container did not start: ${printed()}`)
}

async function booted(run: Machine['run'], printed: () => string): Promise<void> {
  const until = performance.now() + bootTimeoutMs
  while (performance.now() < until) {
    const { stdout } = await run(['systemctl', 'is-system-running'])
    if (/^(running|degraded)/.test(stdout)) return
    await sleep(200)
  }
  throw new Error(`the container's systemd did not start: ${printed()}`)
}

/** Ends the first process of the container, and with it all others. systemd-nspawn itself would leave them behind. */
async function end(container: ChildProcess, leader: number): Promise<void> {
  if (container.exitCode !== null || container.signalCode !== null) return
  const closed = once(container, 'close')
  process.kill(leader, 'SIGKILL')
  await closed
}

function execute(program: string, args: readonly string[]): Promise<Output> {
  return new Promise((done) => {
    execFile(program, args, { timeout: 600_000, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      done({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr })
    })
  })
}
