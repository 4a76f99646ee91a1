import { Readable } from 'node:stream'
import { type Command, CommanderError } from 'commander'
import { accountsCommand } from '../../server/src/commands/accounts.ts'
import { reportError } from '../../server/src/commands/client/main.ts'
import { clientProgram } from '../../server/src/commands/client/program.ts'
import { doctorCommand } from '../../server/src/commands/doctor.ts'
import { keysCommand } from '../../server/src/commands/keys.ts'
import { localServer } from '../../server/src/commands/local-server.ts'
import { statusCommand } from '../../server/src/commands/status.ts'
import { stopCommand } from '../../server/src/commands/stop.ts'
import { trustCommand } from '../../server/src/commands/trust.ts'
import { updateCommand } from '../../server/src/commands/update.ts'
import { usersCommand } from '../../server/src/commands/users.ts'
import { ownVersion } from '../../server/src/platform/package-files.ts'
import type { CommandResult } from './process.ts'

/** All commands that end by themselves. The users' command has only the commands that it shares with the server's. */
const programs = {
  server: () =>
    clientProgram('Fairlead', ownVersion, localServer)
      .addCommand(statusCommand())
      .addCommand(stopCommand())
      .addCommand(doctorCommand())
      .addCommand(keysCommand())
      .addCommand(trustCommand())
      .addCommand(accountsCommand())
      .addCommand(usersCommand())
      .addCommand(updateCommand()),
  users: () => clientProgram('Fairlead', ownVersion),
}

let isBusy = false

/**
 * Runs a command in the process of the tests. A separate process, as in `process.ts`, takes half a second of CPU time.
 * The command has only this environment, input and streams. It cannot show signals, terminals or the end of the
 * process.
 */
export async function commandHere(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  { input = '', of = 'server' }: { readonly input?: string; readonly of?: keyof typeof programs } = {},
): Promise<CommandResult> {
  // The listeners would write to the same streams.
  if (isBusy) throw new Error('another command runs in this process')
  isBusy = true
  const [stdout, stderr] = [[] as string[], [] as string[]]
  const restore = [
    replaceEnvironment({ PATH: process.env['PATH'] ?? '', XDG_CONFIG_HOME: '/nonexistent', ...environment }),
    replaceStream('stdout', stdout),
    replaceStream('stderr', stderr),
    replaceInput(input),
    replaceExitCode(),
    keepExitListeners(),
  ]
  try {
    const status = await statusOf(programs[of](), args)
    return { code: status, stdout: stdout.join(''), stderr: stderr.join('') }
  } finally {
    for (const back of restore) back()
    isBusy = false
  }
}

async function statusOf(program: Command, args: readonly string[]): Promise<number> {
  neverExit(program)
  try {
    await program.parseAsync([...args], { from: 'user' })
  } catch (error) {
    return error instanceof CommanderError ? error.exitCode : reportError(error)
  }
  return Number(process.exitCode ?? 0)
}

/** Makes a program reject where it would end the process: after a help text, and for wrong arguments. */
function neverExit(command: Command): void {
  command.exitOverride()
  for (const each of command.commands) neverExit(each)
}

/** Changes the variables one by one: the home folder comes from the variables of the process. */
function replaceEnvironment(environment: Readonly<Record<string, string>>): () => void {
  const before = { ...process.env }
  const set = (variables: Readonly<Record<string, string | undefined>>) => {
    for (const name of Object.keys(process.env)) if (variables[name] === undefined) delete process.env[name]
    Object.assign(process.env, variables)
  }
  set(environment)
  return () => set(before)
}

function replaceStream(name: 'stdout' | 'stderr', chunks: string[]): () => void {
  const stream = process[name]
  const { write } = stream
  stream.write = (chunk: string | Uint8Array, ...more: unknown[]) => {
    chunks.push(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
    const done = more.find((each) => typeof each === 'function') as (() => void) | undefined
    if (done !== undefined) queueMicrotask(done)
    return true
  }
  return () => {
    stream.write = write
  }
}

function replaceInput(input: string): () => void {
  const before = Object.getOwnPropertyDescriptor(process, 'stdin') as PropertyDescriptor
  const value = Readable.from(input === '' ? [] : [Buffer.from(input)])
  Object.defineProperty(process, 'stdin', { value, configurable: true })
  return () => void Object.defineProperty(process, 'stdin', before)
}

function replaceExitCode(): () => void {
  const before = process.exitCode
  process.exitCode = undefined
  return () => {
    process.exitCode = before
  }
}

/** Removes the listeners that the command has added: they would run when the test process exits. */
function keepExitListeners(): () => void {
  const before = process.listeners('exit')
  return () => {
    for (const listener of process.listeners('exit')) if (!before.includes(listener)) process.off('exit', listener)
  }
}
