import type { ChildProcess } from 'node:child_process'
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Writable } from 'node:stream'
import type { Command } from '../../platform/command.ts'
import { isShortage, type ProcessIdentity, ShortageError, startProcess, startTimeOf } from '../../platform/processes.ts'
import { type Spawned, spawnSandboxed } from '../../platform/sandbox/spawn.ts'
import type { OsUser } from '../../platform/users.ts'
import { entranceText } from '../enter.ts'
import { type CommandScope, commandEnvironment, searchPath } from '../environment.ts'
import type { Entry } from './confinement/confinement.ts'
import { instanceMarkVariable, markVariable, type ProcessMarks } from './marks.ts'
import { type LocalRelease, volumeFoldersOf } from './release-folders.ts'
import { takingTerminal } from './terminal/terminal.ts'
import type { Programs } from './toolchain/own-programs.ts'
import { RegistryError } from './toolchain/registry.ts'
import type { Toolchains } from './toolchain/toolchains.ts'

export interface ExitStatus {
  readonly code: number | null
  readonly signal: string | null
}

export type Launch =
  | {
      readonly ok: true
      readonly process: ProcessIdentity
      readonly exited: Promise<ExitStatus>
      /** The child process, with streams for descriptors that are pipes. */
      readonly child: Pick<ChildProcess, 'stdin' | 'stdout' | 'stderr' | 'unref'>
    }
  /** `code` is as in a shell: 127 when the command does not exist, 126 when it cannot run. */
  | { readonly ok: false; readonly code: 126 | 127; readonly message: string }

interface LaunchOptions {
  readonly cwd: string
  readonly env: Record<string, string>
  /** The folders in which the command is looked up. The PATH of the server has no influence. */
  readonly path: readonly string[]
  readonly user: OsUser | null
  /** A descriptor for standard output and error, three pipes, or the descriptor of a terminal. */
  readonly output: number | 'pipes' | { readonly terminal: number }
  readonly entry: Entry
  /** The program that becomes the command (`enter.ts`), at a path that the user can read. */
  readonly enter: string
  /** Called right before the start. When it throws, nothing starts. */
  readonly fence: () => void
}

/**
 * Starts a command in its own session and, if given, as a user without supplementary groups (Node clears them). Never
 * rejects because of the command, but with the error of `fence`, and with a `ShortageError` when the machine cannot
 * start a process now.
 */
async function launch(argv: readonly [string, ...string[]], options: LaunchOptions): Promise<Launch> {
  const [command, ...args] = argv
  const file = await resolveCommand(command, options.path, options.cwd)
  if (file === null) return { ok: false, code: 127, message: `${command}: command not found` }
  const networkReady = options.entry.networkReady.catch((error: unknown) => {
    throw new ShortageError(`${command} has no network on this machine`, { cause: error })
  })
  // An earlier failure is the reason to report.
  networkReady.catch(() => undefined)
  if (!waitsInside(options)) await networkReady
  options.fence()
  try {
    const words = typeof options.output === 'object' ? takingTerminal([file, ...args]) : ([file, ...args] as const)
    const { child, joined } = spawnConfined(words, options)
    const exited = new Promise<ExitStatus>((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })))
    if (child.pid === undefined) {
      throw await new Promise<Error>((resolve) => child.once('error', resolve))
    }
    // Node collects the exit status in a later turn, and the kernel keeps an ended child until then.
    const startTime = startTimeOf(child.pid) ?? ''
    await joined
    await networkReady
    return { ok: true, process: { pid: child.pid, startTime }, exited, child }
  } catch (error) {
    if (isShortage(error) || !isDirect(options.entry)) {
      throw new ShortageError(`${command} could not be started by this machine`, { cause: error })
    }
    return { ok: false, code: 126, message: describe(command, error) }
  }
}

/** True when no other program runs before the command. */
const isDirect = ({ sandbox, prefix, groups, network }: Entry): boolean =>
  sandbox === null && prefix.length + groups.length + network.length === 0

/** True when the programs before the command start immediately, and only the command waits for the network. */
const waitsInside = ({ entry, user }: LaunchOptions): boolean => entry.sandbox !== null && user !== null

function stdioOf(output: LaunchOptions['output']): ['pipe' | 'ignore' | number, 'pipe' | number, 'pipe' | number] {
  if (typeof output === 'object') return [output.terminal, output.terminal, output.terminal]
  return output === 'pipes' ? ['pipe', 'pipe', 'pipe'] : ['ignore', output, output]
}

function spawnConfined(argv: readonly [string, ...string[]], options: LaunchOptions): Spawned {
  const { sandbox, prefix, groups, network } = options.entry
  if (sandbox !== null) return spawnInSandbox(sandbox, argv, options)
  const [first = argv[0], ...rest] = [...prefix, ...argv]
  const spawn = groups.length + network.length === 0 ? spawnDirectly : spawnEntered
  return { child: spawn(first, rest, options), joined: Promise.resolve() }
}

/**
 * Starts the command in bubblewrap. When root runs bubblewrap, the command drops root inside, and `enter` then sets its
 * variables. Otherwise bubblewrap sets the variables.
 */
function spawnInSandbox(
  { sandbox, view }: NonNullable<Entry['sandbox']>,
  argv: readonly [string, ...string[]],
  { output, user, entry, enter, env }: LaunchOptions,
): Spawned {
  // Bubblewrap lives on while a process of the command does, and is found by the mark.
  const marks = { [markVariable]: env[markVariable] ?? '' }
  const common = {
    user,
    before: [...entry.network, ...entry.prefix],
    // A server without root enters an app's network as the root of a namespace.
    entersAsRoot: entry.network.length > 0,
    groups: entry.groups,
    marks,
    detached: true,
    outOfMemoryScore: entry.outOfMemoryScore,
  }
  if (user === null) {
    const stdio = [...stdioOf(output), 'ignore'] as const
    return spawnSandboxed(sandbox, { ...common, argv, stdio, view: { ...view, variables: env } })
  }
  const stdio = [...stdioOf(output), 'pipe'] as const
  const instructions = entranceText({ groups: [], user: null, argv, env })
  const spawned = spawnSandboxed(sandbox, { ...common, argv: [enter], stdio, view })
  void entry.networkReady.then(
    () => send(spawned.child, instructions),
    // The child ends without instructions.
    () => send(spawned.child, ''),
  )
  return spawned
}

function spawnDirectly(file: string, args: readonly string[], options: LaunchOptions): ChildProcess {
  const { cwd, env, output, user, entry } = options
  return startProcess(file, args, {
    cwd,
    env,
    detached: true,
    outOfMemoryScore: entry.outOfMemoryScore,
    stdio: stdioOf(output),
    ...(user === null ? {} : { uid: user.uid, gid: user.gid }),
  })
}

/**
 * Starts `enter` in the network. It joins the groups with the rights of the server and then executes the command.
 * Every program before the command has an empty environment: a variable such as `LD_PRELOAD` would make a program with
 * the rights of the server run the code of the app.
 */
function spawnEntered(file: string, args: readonly string[], options: LaunchOptions): ChildProcess {
  const { cwd, env, output, user, entry, enter } = options
  const [first = enter, ...rest] = [...entry.network, enter]
  const instructions = entranceText({ groups: entry.groups, user, argv: [file, ...args], env })
  const child = startProcess(first, rest, {
    cwd,
    env: {},
    detached: true,
    outOfMemoryScore: entry.outOfMemoryScore,
    stdio: [...stdioOf(output), 'pipe'],
  })
  send(child, instructions)
  return child
}

function send(child: ChildProcess, instructions: string): void {
  if (child.pid === undefined) return
  const pipe = child.stdio[3] as Writable | undefined
  // The child may be killed before it reads them.
  pipe?.on('error', () => undefined)
  pipe?.end(instructions)
}

function describe(command: string, error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT') return `${command}: cannot be run: the interpreter in its first line or its folder is missing`
  if (code === 'EACCES') return `${command}: cannot be run: permission denied`
  return `${command}: cannot be run: ${error instanceof Error ? error.message : String(error)}`
}

/** Starts a command of a release in its sources, with the environment and the user of the release. */
export type CommandStarter = (
  release: LocalRelease,
  command: Command,
  how: {
    readonly scope: CommandScope
    readonly entry: Entry
    readonly output: LaunchOptions['output']
    readonly unit?: string
  },
) => Promise<Launch>

/** @param fence called before each start; when it throws, nothing starts */
export function createCommandStarter(
  { enter }: Pick<Programs, 'enter'>,
  toolchains: Pick<Toolchains, 'binOf'>,
  marks: Pick<ProcessMarks, 'markOf'>,
  fence: () => void,
): CommandStarter {
  return async (release, command, { scope, entry, output, unit }) => {
    const bin = await toolchains.binOf(release.paths).catch(missingTool)
    if (typeof bin !== 'string') return bin
    const [name, ...args] = command.argv
    const place = { scope, bin, memoryBytes: entry.memoryBytes }
    return launch([name, ...args], {
      cwd: release.paths.source,
      env: {
        ...commandEnvironment({ ...release, volumeFolders: volumeFoldersOf(release) }, command, place),
        [markVariable]: marks.markOf(release.id),
        ...(unit === undefined ? {} : { [instanceMarkVariable]: marks.markOf(unit) }),
      },
      path: searchPath(release.paths, bin),
      user: release.user,
      output,
      entry,
      enter,
      fence,
    })
  }
}

/**
 * The result when a program of the release was deleted and cannot be downloaded again: the commands of the release
 * cannot run.
 */
function missingTool(error: unknown): Launch {
  if (!(error instanceof RegistryError)) throw error
  const message = `A program that this release runs with is not on the server any more, and the package registry could not be read (${error.message}).`
  return { ok: false, code: 127, message }
}

/**
 * Finds the file of a command. Returns `null` when no file exists. A command with a path only needs to exist: the later
 * error of the start explains more than "not found".
 *
 * @param path the folders for names without a path
 */
async function resolveCommand(command: string, path: readonly string[], cwd: string): Promise<string | null> {
  if (command.includes('/')) {
    const file = resolve(cwd, command)
    return (await isFile(file, constants.F_OK)) ? file : null
  }
  for (const folder of path) {
    const file = join(folder, command)
    if (await isFile(file, constants.X_OK)) return file
  }
  return null
}

async function isFile(path: string, mode: number): Promise<boolean> {
  try {
    await access(path, mode)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}
