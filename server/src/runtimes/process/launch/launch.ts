import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Writable } from 'node:stream'
import { type ProcessIdentity, startTimeOf } from '../../platform/processes.ts'
import type { OsUser } from '../../platform/users.ts'
import type { Entry } from './confinement.ts'
import type { Entrance } from './enter.ts'

export interface Exit {
  readonly code: number | null
  readonly signal: string | null
}

export type Launch =
  | { readonly ok: true; readonly process: ProcessIdentity; readonly exited: Promise<Exit>; readonly unref: () => void }
  /** With the code that a shell gives: 127 for a command that is not there, 126 for one that cannot be run. */
  | { readonly ok: false; readonly code: 126 | 127; readonly message: string }

/**
 * Starts a command in a session of its own. With a user it runs as that user and in no further group (Node clears the
 * supplementary groups whenever it changes the user). Never throws for what a command can do wrong.
 *
 * @param options.path folders that the command is looked for in; the server's own PATH plays no part
 * @param options.output descriptor that receives standard output and error
 * @param options.entry what holds the command; nothing of it runs outside
 */
export async function launch(
  argv: readonly [string, ...string[]],
  options: {
    readonly cwd: string
    readonly env: Record<string, string>
    readonly path: readonly string[]
    readonly user: OsUser | null
    readonly output: number
    readonly entry: Entry
    /** Node and the bundled `enter.ts`. */
    readonly enter: { readonly node: string; readonly program: string }
  },
): Promise<Launch> {
  const [command, ...args] = argv
  const file = await resolveCommand(command, options.path, options.cwd)
  if (file === null) return { ok: false, code: 127, message: `${command}: command not found` }
  try {
    const [first = file, ...rest] = [...options.entry.prefix, file, ...args]
    const child =
      options.entry.groups.length === 0 ? spawnPlainly(first, rest, options) : spawnInGroups(first, rest, options)
    const exited = new Promise<Exit>((fulfil) => child.once('exit', (code, signal) => fulfil({ code, signal })))
    if (child.pid === undefined) {
      const error = await new Promise<Error>((fulfil) => child.once('error', fulfil))
      return { ok: false, code: 126, message: describe(command, error) }
    }
    // The kernel keeps a child that has ended until Node has asked for its exit, which it has not in this turn.
    const startTime = startTimeOf(child.pid) ?? ''
    return { ok: true, process: { pid: child.pid, startTime }, exited, unref: () => child.unref() }
  } catch (error) {
    return { ok: false, code: 126, message: describe(command, error) }
  }
}

type LaunchOptions = Parameters<typeof launch>[1]

function spawnPlainly(file: string, args: readonly string[], { cwd, env, output, user }: LaunchOptions): ChildProcess {
  return spawn(file, args, {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', output, output],
    ...(user === null ? {} : { uid: user.uid, gid: user.gid }),
  })
}

/** The process joins the groups while it is still ours, and becomes the command after that. */
function spawnInGroups(file: string, args: readonly string[], options: LaunchOptions): ChildProcess {
  const { cwd, env, output, user, entry, enter } = options
  const child = spawn(enter.node, ['--disable-warning=ExperimentalWarning', enter.program], {
    cwd,
    env: {},
    detached: true,
    stdio: ['ignore', output, output, 'pipe'],
  })
  const entrance: Entrance = { groups: entry.groups, user, file, args, env }
  const pipe = child.stdio[3] as Writable | undefined
  // It may have been ended before it has read.
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

/** The file of a command; one that is named by its path needs only to be there, as the reason it cannot run tells more. */
async function resolveCommand(command: string, path: readonly string[], cwd: string): Promise<string | null> {
  if (command.includes('/')) {
    const file = resolve(cwd, command)
    return (await isReady(file, constants.F_OK)) ? file : null
  }
  for (const folder of path) {
    const file = join(folder, command)
    if (await isReady(file, constants.X_OK)) return file
  }
  return null
}

async function isReady(file: string, mode: number): Promise<boolean> {
  try {
    await access(file, mode)
    return (await stat(file)).isFile()
  } catch {
    return false
  }
}
