import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { endedOrAborted } from '../../platform/abort.ts'
import type { Cgroups } from '../../platform/cgroups.ts'
import type { Logger } from '../../platform/logger.ts'
import {
  hardDescriptorLimit,
  killGroup,
  type ProcessIdentity,
  ShortageError,
  startProcess,
  startTimeOf,
} from '../../platform/processes.ts'
import { findProgram } from '../../platform/programs.ts'
import type { SandboxView } from '../../platform/sandbox/arguments.ts'
import type { Confined, ConfinedCommand, ConfinedExit } from '../../platform/sandbox/confined.ts'
import type { Sandbox } from '../../platform/sandbox/find.ts'
import { type Spawned, spawnSandboxed } from '../../platform/sandbox/spawn.ts'
import type { OsUser } from '../../platform/users.ts'
import { outOfMemoryScores } from '../limits.ts'
import { createMemoryWatch } from './confinement/memory-watch.ts'

export interface ToolRunnerOptions {
  readonly cgroups: Cgroups | null
  readonly prlimit: string | null
  readonly sandbox: Sandbox | null
  readonly user: OsUser | null
  /** The data directory. Commands see only the files of it that they get. */
  readonly dataDirectory: string
  readonly path: string
  /** Called right before a command starts. When it throws, nothing starts. */
  readonly fence: () => void
}

const limits = { memoryBytes: 768_000_000, cpus: 1, processes: 128 }
const mostOpenFiles = 1_024
const mostOutput = 64 * 1024

/** Runs the server's commands, such as git, each in a group and a sandbox. */
export function createToolRunner(options: ToolRunnerOptions): Confined {
  const { cgroups, sandbox, user } = options
  const memory = createMemoryWatch()
  // Groups that an earlier leader could not remove have other names.
  const own = randomBytes(4).toString('hex')
  let last = 0
  return {
    isSandboxed: sandbox !== null,
    user,
    async run(command, signal) {
      signal.throwIfAborted()
      last += 1
      const name = `tool.${own}.${last}`
      options.fence()
      const groups = (await cgroups?.make(name, limits)) ?? []
      try {
        const launched = await start(options, command, groups)
        const endWatch = watchMemory(memory, cgroups, name, launched)
        const exit = await collect(launched, command, signal, () => end(cgroups, name, launched)).finally(endWatch)
        const exceeded = memory.exceeded(name) !== null || ((await cgroups?.exceeded(name)) ?? null) !== null
        return { ...exit, exceeded: exit.code !== 0 && exceeded }
      } finally {
        memory.forget(name)
        await cgroups?.remove(name)
      }
    },
  }
}

interface Launched {
  readonly child: ChildProcess
  readonly leader: ProcessIdentity
  readonly exited: Promise<number | null>
}

async function start(
  options: ToolRunnerOptions,
  command: ConfinedCommand,
  groups: readonly string[],
): Promise<Launched> {
  const [name, ...args] = command.argv
  const file = name.startsWith('/') ? name : await findProgram(name, options.path)
  if (file === null) throw new ShortageError(`${name} is not on the PATH of the server: install it`)
  options.fence()
  const { child, joined } = spawnTool(options, command, [file, ...args], groups)
  const exited = new Promise<number | null>((done) => child.once('exit', (code) => done(code)))
  if (child.pid === undefined) {
    const error = await new Promise<Error>((done) => child.once('error', done))
    throw new ShortageError(`${name} could not be started`, { cause: error })
  }
  const leader = { pid: child.pid, startTime: startTimeOf(child.pid) ?? '' }
  await joined
  return { child, leader, exited }
}

function spawnTool(
  { prlimit, sandbox, user, path, cgroups, dataDirectory }: ToolRunnerOptions,
  command: ConfinedCommand,
  argv: readonly [string, ...string[]],
  groups: readonly string[],
): Spawned {
  const { opened, inherited, readable, writable, mounted, network } = command
  const before = prlimit === null ? [] : [prlimit, ...prlimitArguments(command, cgroups), '--']
  const variables = { ...command.env, PATH: path }
  const options = { detached: true, outOfMemoryScore: outOfMemoryScores.build }
  const stdio = [command.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe', inherited?.fd ?? 'ignore'] as const
  if (sandbox === null) {
    const [first = argv[0], ...rest] = [...before, ...argv]
    const owner = user === null ? {} : { uid: user.uid, gid: user.gid }
    const child = startProcess(first, rest, { cwd: '/', env: variables, stdio: [...stdio], ...options, ...owner })
    // The process has no children yet: the program that sets the limits comes first.
    if (child.pid !== undefined) for (const group of groups) writeFileSync(group, String(child.pid))
    return { child, joined: Promise.resolve() }
  }
  const view: SandboxView = {
    ...{ readable, writable, mounted, variables, hidden: [dataDirectory], directory: '/' },
    ...(opened === null ? {} : { opened }),
    ...{ isOffline: !network, endsWithServer: true },
    system: network ? ['programs', 'network'] : ['programs'],
  }
  const folder = opened === null ? {} : { opened: opened.folder.fd }
  return spawnSandboxed(sandbox, { argv, view, user, stdio, before, groups, ...options, ...folder })
}

function prlimitArguments({ mostFileBytes }: ConfinedCommand, cgroups: Cgroups | null): string[] {
  const limitsMemory = cgroups?.controllers.has('memory') === true
  return [
    ...['--core=0', `--nofile=${Math.min(mostOpenFiles, hardDescriptorLimit())}`, `--fsize=${mostFileBytes}`],
    // Git does not reserve more memory than it uses.
    ...(limitsMemory ? [] : [`--data=${limits.memoryBytes}`]),
  ]
}

function watchMemory(
  memory: ReturnType<typeof createMemoryWatch>,
  cgroups: Cgroups | null,
  name: string,
  { leader }: Launched,
): () => void {
  if (cgroups?.controllers.has('memory') === true) return () => undefined
  const listed = () => cgroups?.processesOf(name) ?? []
  return memory.watch(name, { leader, memoryBytes: limits.memoryBytes, listed })
}

/** Collects the output until the command ends. Ends the command when the signal aborts or `onOutput` throws. */
async function collect(
  { child, exited }: Launched,
  { onOutput, input }: ConfinedCommand,
  signal: AbortSignal,
  kill: () => Promise<void>,
): Promise<Omit<ConfinedExit, 'exceeded'>> {
  const refused = new AbortController()
  const output = { stdout: '', stderr: '' }
  const keep = (name: keyof typeof output) => (chunk: Buffer) => {
    output[name] = (output[name] + chunk.toString('utf8')).slice(-mostOutput)
  }
  const consume = (chunk: Buffer) => {
    try {
      if (!refused.signal.aborted) onOutput?.(chunk)
    } catch (error) {
      refused.abort(error)
    }
  }
  // The command may end before it has read everything.
  child.stdin?.on('error', () => undefined)
  void input?.then((text) => child.stdin?.end(text))
  child.stdout?.on('data', onOutput === undefined ? keep('stdout') : consume)
  child.stderr?.on('data', keep('stderr'))
  const closed = Promise.all([closedOf(child.stdout), closedOf(child.stderr)])
  const stop = AbortSignal.any([signal, refused.signal])
  await endedOrAborted(exited, stop)
  await kill()
  const code = await exited
  await closed
  stop.throwIfAborted()
  return { code, ...output }
}

const closedOf = (stream: Readable | null): Promise<void> =>
  stream === null ? Promise.resolve() : finished(stream).catch(() => undefined)

/** Ends the rest of a command: git has helpers (git-remote-https, ssh) that must end with it. */
async function end(cgroups: Cgroups | null, name: string, { leader }: Launched): Promise<void> {
  killGroup(leader.pid)
  await cgroups?.kill(name)
}

export interface LeftGroup {
  readonly groups: Pick<Cgroups, 'remove'>
  readonly name: string
}

/**
 * Ends the processes in the groups. Logs and returns groups that cannot be removed, for example when the kernel blocks
 * a process or gives it no core.
 *
 * @param fence called before each removal; when it throws, nothing is removed
 */
export async function removeLeftGroups(
  left: readonly LeftGroup[],
  fence: () => void,
  logger: Pick<Logger, 'warn'>,
): Promise<readonly LeftGroup[]> {
  const stayed = await Promise.all(
    left.map(async (each) => {
      fence()
      try {
        await each.groups.remove(each.name)
        return []
      } catch (error) {
        logger.warn({ err: error, group: each.name }, 'a group of an earlier leader cannot be removed yet')
        return [each]
      }
    }),
  )
  return stayed.flat()
}
