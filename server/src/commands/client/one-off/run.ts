import { spawnSync } from 'node:child_process'
import { constants } from 'node:os'
import type { ReadStream, WriteStream } from 'node:tty'
import { Command } from 'commander'
import type { RunEnd } from '../../../contract/run-protocol.ts'
import { findAppParams } from '../apps.ts'
import { CommandError, Ended } from '../command-error.ts'
import { withServer } from '../connection.ts'
import { type LocalServer, withLocalOption } from '../local.ts'
import { type ConnectedRun, connectRun } from './connect.ts'

interface RunFlags {
  readonly tty?: boolean
  readonly project?: string
  readonly dataDir?: string
}

/** The status of a command that Ctrl+C has ended. */
const interrupted = 130

/** `fairlead run APP [--tty] -- COMMAND…` */
export function runCommand(local?: LocalServer): Command {
  const command = new Command('run')
    .description('run a command beside an app, with its files, variables and limits, and end with its status')
    .argument('<app>', 'the name of the app')
    .argument('<command...>', 'the program and its arguments, after --')
    .option('-t, --tty', 'give it this terminal, for shells and other interactive programs')
    .option('--project <name>', 'the name or the id of the project')
    .addHelpText('after', '\nExamples:\n  fairlead run shop -- npm run migrate\n  fairlead run shop --tty -- bash')
  return withLocalOption(command, local).action((app: string, words: readonly string[], flags: RunFlags) =>
    withServer(local, flags, async (connection) => {
      const terminal = flags.tty === true ? ownTerminal() : null
      const { params } = await findAppParams(connection, { app, project: flags.project, folder: '.' })
      const body = { command: [...words], terminal: terminal === null ? null : sizeOf(terminal.screen) }
      const { connect } = await connection.client.runs.create({ params, body })
      const address = new URL(connect.path, connection.baseUrl.replace(/^http/, 'ws'))
      const streams = { input: process.stdin, output: process.stdout, errors: process.stderr }
      const run = connectRun(String(address), connect.ticket, streams)
      const end = terminal === null ? await untilEnd(run) : await inTerminal(run, terminal)
      if (end.problem !== null) process.stderr.write(`fairlead: ${end.problem}\n`)
      throw new Ended(statusOf(end))
    }),
  )
}

/** Waits for the end; Ctrl+C, and the end of this terminal, end the command. */
async function untilEnd(run: ConnectedRun): Promise<RunEnd> {
  const asked = Promise.withResolvers<RunEnd>()
  const stop = () => {
    run.close()
    asked.resolve({ type: 'exit', code: interrupted, signal: null, problem: null })
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  for (const signal of signals) process.once(signal, stop)
  try {
    return await Promise.race([run.ended, asked.promise])
  } finally {
    for (const signal of signals) process.off(signal, stop)
  }
}

interface Terminal {
  readonly keyboard: ReadStream
  readonly screen: WriteStream
}

function ownTerminal(): Terminal {
  const { stdin, stdout } = process
  if (stdin.isTTY && stdout.isTTY) return { keyboard: stdin, screen: stdout }
  throw new CommandError('--tty needs a terminal for standard input and output; leave it out in scripts.')
}

const sizeOf = ({ columns, rows }: WriteStream) => ({ columns: Math.max(1, columns), rows: Math.max(1, rows) })

/** Passes every key to the command, Ctrl+C included, and each new size of the window. */
async function inTerminal(run: ConnectedRun, { keyboard, screen }: Terminal): Promise<RunEnd> {
  const resize = () => run.send({ type: 'resize', ...sizeOf(screen) })
  keyboard.setRawMode(true)
  // Node leaves line ends to be changed, which the command's own terminal has done already.
  spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] })
  screen.on('resize', resize)
  try {
    return await untilEnd(run)
  } finally {
    screen.off('resize', resize)
    keyboard.setRawMode(false)
  }
}

/** Returns the status that a shell gives: 128 and the number of the signal for a command that a signal ended. */
function statusOf({ code, signal, problem }: RunEnd): number {
  if (code !== null) return code
  if (signal !== null) return 128 + (constants.signals[signal as NodeJS.Signals] ?? 0)
  return problem === null ? 0 : 1
}
