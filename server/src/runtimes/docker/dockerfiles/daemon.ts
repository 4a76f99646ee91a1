import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { lstat, mkdir, readlink, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { endedOrAborted } from '../../../platform/abort.ts'
import type { Exceeded, GroupLimits } from '../../../platform/cgroups.ts'
import { readStat, sendSignal, startProcess, startTimeOf } from '../../../platform/processes.ts'
import { lastLines } from '../../../platform/programs.ts'
import { chooseSocketFolder, makePrivateDirectory } from '../../../platform/socket-folder.ts'
import { outOfMemoryScores } from '../../limits.ts'
import { createEngine, type Engine } from '../client.ts'
import type { BuildGroup, BuildGroups } from './build-groups.ts'
import { type DaemonHome, removeRecord, writeRecord } from './daemon-record.ts'
import { socketFilter } from './socket-filter.ts'

/** Networks of builds. They reach the permitted addresses, and nothing else on this machine or around it. */
export interface BuildNetworks {
  /** `enter` is a command prefix that enters the network and then executes the next program. */
  open(owner: BuildOwner): Promise<{ readonly enter: readonly string[]; readonly ready: Promise<void> }>
  remove(owner: BuildOwner): Promise<void>
}

interface BuildOwner {
  readonly id: string
  readonly kind: 'build'
}

export interface DaemonParts {
  readonly programs: DaemonPrograms
  readonly system: SystemFiles
  readonly groups: BuildGroups
  readonly networks: BuildNetworks
  readonly environment: Readonly<Record<string, string>>
  /** Called right before the start or end of a daemon. Throws when another server leads. */
  readonly fence: () => void
}

/** Absolute paths of the programs. */
export interface DaemonPrograms {
  readonly dockerd: string
  readonly bwrap: string
  /** The major version of dockerd. Versions before 24 set their own out-of-memory score. */
  readonly majorVersion: number
  readonly settings: readonly string[]
}

/** A Docker engine for one build, with a separate network, control group, processes and files. */
export interface BuildDaemon {
  readonly engine: Engine
  /** Aborts with an error that contains the daemon's last words. */
  readonly ended: AbortSignal
  exceeded(): Promise<Exceeded | null>
  /**
   * Lets the daemon write its data, and ends it with all its processes. Only the data remain. Resolves with false when
   * the daemon did not finish in time.
   */
  end(): Promise<boolean>
}

const readyMs = 60_000
const pollMs = 20
/** The time for the daemon to write its data: a canceled build must end within five seconds. */
const graceMs = 2_000
/** The last line of the daemon. Afterwards it still waits one second for containerd. */
const lastWords = 'Daemon shutdown complete'
const argumentsDescriptor = 3
const filterDescriptor = 4
const socketName = 'docker.sock'

/**
 * Starts the daemon for a build of a release, on the data of earlier builds of the app.
 *
 * @throws Error when the daemon does not start
 */
export async function startDaemon(
  parts: DaemonParts,
  home: DaemonHome,
  { id, limits }: { readonly id: string; readonly limits: GroupLimits },
  signal: AbortSignal,
): Promise<BuildDaemon> {
  await using cleanup = new AsyncDisposableStack()
  const sockets = chooseSocketFolder({ folder: home.sockets, name: socketName, owner: home.folder })
  await mkdir(dirname(home.folder), { recursive: true, mode: 0o700 })
  await makePrivateDirectory(home.folder, null)
  await mkdir(home.data, { recursive: true, mode: 0o711 })
  await makePrivateDirectory(sockets, null)
  await rm(join(sockets, socketName), { force: true })
  cleanup.defer(() => rm(sockets, { recursive: true, force: true }))

  parts.fence()
  const owner: BuildOwner = { id, kind: 'build' }
  const network = await parts.networks.open(owner)
  cleanup.defer(() => parts.networks.remove(owner))
  await network.ready
  const group = await parts.groups.make(id, limits)
  cleanup.defer(() => group.remove())

  parts.fence()
  signal.throwIfAborted()
  const own = { data: home.data, sockets }
  const process = spawnDaemon(parts, network.enter, group, own)
  cleanup.defer(() => process.kill())
  await writeRecord(home, process, id)
  cleanup.defer(() => removeRecord(home))

  const engine = createEngine(join(sockets, socketName))
  await untilReady(engine, AbortSignal.any([signal, process.ended]))
  const owned = cleanup.move()
  return {
    engine,
    ended: process.ended,
    exceeded: () => group.exceeded(),
    async end() {
      parts.fence()
      const isWritten = await process.stop(group)
      await owned.disposeAsync()
      return isWritten
    },
  }
}

interface DaemonProcess {
  readonly pid: number
  readonly startTime: string
  readonly ended: AbortSignal
  /** Resolves with true when the daemon has written everything, and with false when it does not finish in time. */
  stop(group: BuildGroup): Promise<boolean>
  kill(): Promise<void>
}

/**
 * Starts bubblewrap, which waits for its arguments. So it is in the control group before it starts the first process.
 */
function spawnDaemon(
  parts: DaemonParts,
  enter: readonly string[],
  group: BuildGroup,
  own: { readonly data: string; readonly sockets: string },
): DaemonProcess {
  const { bwrap, dockerd } = parts.programs
  const args = daemonArguments(group.parent, parts.programs)
  const filter = socketFilter(process.arch)
  const filtered = filter === null ? [] : ['--seccomp', String(filterDescriptor)]
  const command = [...enter, bwrap, '--args', String(argumentsDescriptor), ...filtered, '--', dockerd, ...args]
  const [first = bwrap, ...rest] = command
  const child = startProcess(first, rest, {
    cwd: '/',
    env: {},
    outOfMemoryScore: outOfMemoryScores.build,
    stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
  })
  if (child.pid === undefined) throw new Error('the build daemon could not be started')
  const [pipe, filterPipe] = [argumentsDescriptor, filterDescriptor].map((each) => child.stdio[each] as Writable | null)
  for (const each of [pipe, filterPipe]) each?.on('error', () => undefined)
  filterPipe?.end(filter ?? undefined)
  try {
    for (const file of group.join) writeFileSync(file, String(child.pid))
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
  pipe?.end(
    daemonView(parts.system, own, parts.environment)
      .map((each) => `${each}\0`)
      .join(''),
  )
  return watchProcess(child, child.pid)
}

function watchProcess(child: ChildProcess, pid: number): DaemonProcess {
  let said = ''
  const complete = Promise.withResolvers<void>()
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4_000)
    if (said.includes(lastWords)) complete.resolve()
  })
  const over = new AbortController()
  const exited = once(child, 'exit').then(([code, signal]) => {
    over.abort(new Error(`the build daemon ended (${code ?? signal}): ${lastLines(said, 5)}`))
  })
  return {
    pid,
    startTime: startTimeOf(pid) ?? '',
    ended: over.signal,
    async stop(group) {
      const found = (await group.processes()).filter((each) => readStat(each)?.command === 'dockerd')
      for (const each of found) sendSignal(each, 'SIGTERM')
      await endedOrAborted(Promise.race([exited, complete.promise]), AbortSignal.timeout(graceMs))
      return said.includes(lastWords)
    },
    async kill() {
      // The first process of the namespace ends with its parent and ends all others.
      if (!over.signal.aborted) child.kill('SIGKILL')
      await exited
    },
  }
}

/** Steps use the daemon's network, which serves one build. So it needs no further networks and no iptables rules. */
function daemonArguments(groupParent: string, { majorVersion, settings }: DaemonPrograms): string[] {
  return [
    ...['--host', `unix://${daemonPlaces.sockets}/${socketName}`, '--group', '0'],
    ...['--data-root', daemonPlaces.data, '--exec-root', '/run/docker', '--pidfile', '/run/docker.pid'],
    ...['--bridge', 'none', '--iptables=false', '--ip-forward=false', '--ip-masq=false', '--userland-proxy=false'],
    ...['--cgroup-parent', groupParent, '--exec-opt', 'native.cgroupdriver=cgroupfs'],
    ...['--log-level', 'info'],
    ...settings,
    // Later versions keep the inherited score.
    ...(majorVersion < 24 ? ['--oom-score-adjust', String(outOfMemoryScores.build)] : []),
  ]
}

async function untilReady(engine: Engine, signal: AbortSignal): Promise<void> {
  for (const deadline = performance.now() + readyMs; ; ) {
    signal.throwIfAborted()
    const isReady = await engine.version().then(
      () => true,
      () => false,
    )
    if (isReady) return
    if (performance.now() > deadline) throw new Error('the build daemon does not answer')
    await sleep(pollMs, undefined, { signal }).catch(() => undefined)
  }
}

/*
 * The files that the build daemon sees: system programs and the folders of the daemon. The daemon runs as root with all
 * capabilities, because it makes namespaces and mounts, so it sees no file that it does not need.
 */

/** `link` is the target of a symbolic link. */
interface SystemFile {
  readonly path: string
  readonly link: string | null
}

type SystemFiles = readonly SystemFile[]

const folders = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64']
const etc = [
  ...['group', 'hosts', 'ld.so.cache', 'nsswitch.conf', 'passwd', 'protocols', 'resolv.conf', 'services'],
  ...['ca-certificates', 'crypto-policies', 'pki/ca-trust', 'pki/tls/certs', 'ssl/certs', 'ssl/openssl.cnf'],
  // Certificates of the operator's registries.
  'docker/certs.d',
].map((name) => `/etc/${name}`)
const resolvers = ['/run/systemd/resolve', '/run/NetworkManager', '/run/resolvconf']

export async function findSystemFiles(): Promise<SystemFiles> {
  const found = await Promise.all(
    [...folders, ...etc, ...resolvers].map(async (path) => {
      const info = await lstat(path).catch(() => null)
      return info === null ? [] : [{ path, link: info.isSymbolicLink() ? await readlink(path) : null }]
    }),
  )
  return found.flat()
}

export const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The daemon's folders, as it sees them. */
const daemonPlaces = { data: '/var/lib/docker', sockets: '/run/fairlead' } as const

/**
 * Returns the arguments of bubblewrap for the daemon. The daemon ends with the server and ends all its processes,
 * because they share a pid namespace. No process gains rights when it executes a program (`no_new_privs`).
 */
function daemonView(
  system: SystemFiles,
  own: { readonly data: string; readonly sockets: string },
  variables: Readonly<Record<string, string>>,
): string[] {
  return [
    ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--hostname', 'build', '--die-with-parent'],
    ...['--cap-add', 'ALL'],
    ...programs(system.filter(({ path }) => !path.startsWith('/run/'))),
    ...['--dev', '/dev', '--proc', '/proc'],
    // The daemon makes control groups for steps.
    ...['--ro-bind', '/sys', '/sys', '--dev-bind', '/sys/fs/cgroup', '/sys/fs/cgroup'],
    ...['--tmpfs', '/run', '--symlink', '../run', '/var/run', '--tmpfs', '/tmp'],
    ...programs(system.filter(({ path }) => path.startsWith('/run/'))),
    ...['--bind', own.data, daemonPlaces.data, '--bind', own.sockets, daemonPlaces.sockets],
    ...Object.entries({ PATH: searchPath, ...variables }).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--chdir', '/'],
  ]
}

/** Returns the arguments of bubblewrap for a program that reads one folder. No other path shows the folder. */
export function readerView(system: SystemFiles, folder: string, at: string): string[] {
  return [
    ...['--unshare-pid', '--unshare-net', '--unshare-ipc', '--unshare-uts', '--die-with-parent'],
    ...['--cap-drop', 'ALL', '--cap-add', 'CAP_DAC_READ_SEARCH'],
    ...programs(system.filter(({ path }) => !path.startsWith('/run/') && !path.startsWith('/etc/'))),
    ...['--dev', '/dev', '--ro-bind', folder, at],
    ...['--setenv', 'PATH', searchPath, '--setenv', 'LC_ALL', 'C', '--chdir', '/'],
  ]
}

const programs = (files: SystemFiles): string[] =>
  files.flatMap(({ path, link }) => [
    ...foldersTo(path),
    ...(link === null ? ['--ro-bind-try', path, path] : ['--symlink', link, path]),
  ])

/** Steps run as other users, too, so everybody may enter. */
function foldersTo(path: string): string[] {
  const parent = dirname(path)
  return parent === '/' ? [] : [...foldersTo(parent), '--perms', '0755', '--dir', parent]
}
