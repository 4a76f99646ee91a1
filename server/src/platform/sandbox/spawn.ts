import type { ChildProcess } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import type { Writable } from 'node:stream'
import { startProcess } from '../processes.ts'
import type { OsUser } from '../users.ts'
import { type SandboxView, sandboxArguments } from './arguments.ts'
import { limitSystemV, type Sandbox } from './find.ts'

type Stdio = 'pipe' | 'ignore' | number

export interface SandboxedCommand {
  /** The file of the command as it is seen inside, and its arguments. */
  readonly argv: readonly [string, ...string[]]
  readonly view: SandboxView
  /** The user that the command runs as; `null` for the user of the server. Only root can choose one. */
  readonly user: OsUser | null
  /** Standard input, output and error, and a fourth descriptor that the command inherits. */
  readonly stdio: readonly [Stdio, Stdio, Stdio, Stdio]
  /** The descriptor of the folder that the view shows as opened. */
  readonly opened?: number
  /** Programs that become the next one and run outside, with the server's rights, such as one that enters a network. */
  readonly before?: readonly string[]
  /** True where these programs enter a namespace of users in which they are root. */
  readonly entersAsRoot?: boolean
  /** Files of control groups that the command's processes belong to from the first one on. */
  readonly groups?: readonly string[]
  /** Variables of bubblewrap itself, by which its processes are found. They must not change what a program does. */
  readonly marks?: Readonly<Record<string, string>>
  /** See `startProcess`. */
  readonly outOfMemoryScore?: number
  /** True for a session of its own. */
  readonly detached?: boolean
}

const argumentsDescriptor = 4
const filterDescriptor = 5
// `openedDescriptor` is the next one.

/** A command that has been started. */
export interface Spawned {
  /** Bubblewrap itself, which ends with the command's exit status (128 and its number for a signal). */
  readonly child: ChildProcess
  /**
   * Resolves when the command goes on in its control groups. Rejects when it cannot join them; nothing of it has begun then, and
   * the child is ended.
   */
  readonly joined: Promise<void>
}

/**
 * Starts a command in bubblewrap.
 *
 * Nothing outside has a variable or an argument of the command, because a variable such as `LD_PRELOAD` would run the
 * app's code there, with the server's rights: bubblewrap starts with its marks alone and waits for its arguments on a
 * pipe. That also gives the time to put it into the control groups before it makes the first process, which can take the
 * kernel ten milliseconds.
 */
export function spawnSandboxed(sandbox: Sandbox, command: SandboxedCommand): Spawned {
  const { argv, view, user, stdio, before = [], groups = [], marks = {}, detached = false } = command
  const hasRights = sandbox.setpriv !== null || command.entersAsRoot === true
  const systemV = hasRights ? sandbox.systemV : null
  const score = command.outOfMemoryScore === undefined ? {} : { outOfMemoryScore: command.outOfMemoryScore }
  // The file is opened for each command, because bubblewrap reads from the position of the descriptor.
  const filter = sandbox.filter === null ? null : openSync(sandbox.filter, 'r')
  try {
    const [first = sandbox.program, ...rest] = [
      ...before,
      ...(systemV === null ? [] : limitSystemV(systemV)),
      ...[sandbox.program, '--args', String(argumentsDescriptor)],
      ...(filter === null ? [] : ['--seccomp', String(filterDescriptor)]),
      ...['--', ...giveUpUser(sandbox, user), ...argv],
    ]
    const child = startProcess(first, rest, {
      cwd: '/',
      env: { ...marks },
      detached,
      ...score,
      stdio: [...stdio, 'pipe', filter ?? 'ignore', command.opened ?? 'ignore'],
    })
    if (child.pid === undefined) return { child, joined: Promise.resolve() }
    const pipe = child.stdio[argumentsDescriptor] as Writable | null
    // The process may be killed before it has read.
    pipe?.on('error', () => undefined)
    const system = sandbox.copies?.linked(sandbox.system) ?? sandbox.system
    const options = { ...sandbox, system, isRoot: sandbox.setpriv !== null, hasSystemV: systemV !== null }
    const text = toText(sandboxArguments(options, view))
    return { child, joined: join(child, child.pid, groups).then(() => void pipe?.end(text)) }
  } finally {
    if (filter !== null) closeSync(filter)
  }
}

/** Puts a process that waits into its groups, or ends it. */
async function join(child: ChildProcess, pid: number, groups: readonly string[]): Promise<void> {
  try {
    for (const group of groups) {
      // The number of one that has ended may be another's.
      if (child.exitCode !== null || child.signalCode !== null) throw new Error('the process has ended')
      await writeFile(group, String(pid))
    }
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
}

/** Each argument ends with a zero byte. */
const toText = (args: readonly string[]): string => args.map((each) => `${each}\0`).join('')

/** Returns setpriv's command line, which leaves the next program no capability and no group but the user's own. */
function giveUpUser({ setpriv }: Sandbox, user: OsUser | null): string[] {
  if (setpriv === null || user === null) return []
  const none = ['--clear-groups', '--inh-caps=-all', '--ambient-caps=-all', '--bounding-set=-all', '--no-new-privs']
  return [setpriv, `--reuid=${user.uid}`, `--regid=${user.gid}`, ...none, '--']
}
