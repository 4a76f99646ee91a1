import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'
import { type ProcessIdentity, startTimeOf } from '../../../platform/processes.ts'
import type { OsUser } from '../../../platform/users.ts'
import type { Entry } from '../confinement/confinement.ts'
import type { Entrance } from './enter.ts'
import { resolveCommand } from './resolve-command.ts'

export interface ExitStatus {
  readonly code: number | null
  readonly signal: string | null
}

export type Launch =
  | {
      readonly ok: true
      readonly process: ProcessIdentity
      readonly exited: Promise<ExitStatus>
      /** Holds the streams of the descriptors that are pipes. */
      readonly child: Pick<ChildProcess, 'stdin' | 'stdout' | 'stderr' | 'unref'>
    }
  /** With the code that a shell gives: 127 for a command that does not exist, 126 for one that cannot be run. */
  | { readonly ok: false; readonly code: 126 | 127; readonly message: string }

export interface LaunchOptions {
  readonly cwd: string
  readonly env: Record<string, string>
  /** Folders that the command is looked up in; the server's own PATH plays no part. */
  readonly path: readonly string[]
  readonly user: OsUser | null
  /** A descriptor that receives standard output and error, or three pipes. */
  readonly output: number | 'pipes'
  /** Confines the command; nothing of it runs outside. */
  readonly entry: Entry
  /** Node and the compiled `enter.ts`. */
  readonly enter: { readonly node: string; readonly program: string }
  /** Called right before the process is started; nothing is started when it throws. */
  readonly fence: () => void
}

/**
 * Starts a command in a session of its own. With a user it runs as that user and in no further group (Node clears the
 * supplementary groups whenever it changes the user). Never rejects because of the command itself; rejects with what the
 * fence throws.
 */
export async function launch(argv: readonly [string, ...string[]], options: LaunchOptions): Promise<Launch> {
  const [command, ...args] = argv
  const file = await resolveCommand(command, options.path, options.cwd)
  if (file === null) return { ok: false, code: 127, message: `${command}: command not found` }
  options.fence()
  try {
    const [first = file, ...rest] = [...options.entry.prefix, file, ...args]
    const child =
      options.entry.groups.length === 0 ? spawnDirectly(first, rest, options) : spawnInGroups(first, rest, options)
    const exited = new Promise<ExitStatus>((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })))
    if (child.pid === undefined) {
      const error = await new Promise<Error>((resolve) => child.once('error', resolve))
      return { ok: false, code: 126, message: describe(command, error) }
    }
    // The kernel keeps an ended child until Node has collected its exit status, which cannot happen in this turn.
    const startTime = startTimeOf(child.pid) ?? ''
    return { ok: true, process: { pid: child.pid, startTime }, exited, child }
  } catch (error) {
    return { ok: false, code: 126, message: describe(command, error) }
  }
}

const stdioOf = (output: LaunchOptions['output']): ('pipe' | 'ignore' | number)[] =>
  output === 'pipes' ? ['pipe', 'pipe', 'pipe'] : ['ignore', output, output]

function spawnDirectly(file: string, args: readonly string[], options: LaunchOptions): ChildProcess {
  const { cwd, env, output, user } = options
  return spawn(file, args, {
    cwd,
    env,
    detached: true,
    stdio: stdioOf(output),
    ...(user === null ? {} : { uid: user.uid, gid: user.gid }),
  })
}

/** Starts `enter.ts`, which joins the groups while it still has the server's rights and then becomes the command. */
function spawnInGroups(file: string, args: readonly string[], options: LaunchOptions): ChildProcess {
  const { cwd, env, output, user, entry, enter } = options
  const child = spawn(enter.node, ['--disable-warning=ExperimentalWarning', enter.program], {
    cwd,
    env: {},
    detached: true,
    stdio: [...stdioOf(output), 'pipe'],
  })
  const entrance: Entrance = { groups: entry.groups, user, file, args, env }
  const pipe = child.stdio[3] as Writable | undefined
  // The process may be killed before it has read.
  pipe?.on('error', () => undefined)
  pipe?.end(JSON.stringify(entrance))
  return child
}

function describe(command: string, error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT') return `${command}: cannot be run: the interpreter in its first line or its folder is missing`
  if (code === 'EACCES') return `${command}: cannot be run: permission denied`
  return `${command}: cannot be run: ${error instanceof Error ? error.message : String(error)}`
}
