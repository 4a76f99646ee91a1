import { spawnSync } from 'node:child_process'
import { constants } from 'node:os'
import type { ReadStream, WriteStream } from 'node:tty'
import { Command } from 'commander'
import { WebSocket } from 'ws'
import { channels, type RunEnd, type RunRequest, readMessage, runProtocol } from '../../contract/run-protocol.ts'
import { CommandError, Ended } from './command-error.ts'
import { type LocalServer, withLocalOption, withServer } from './connection.ts'
import { findAppParams } from './find-app.ts'

interface RunFlags {
  readonly tty?: boolean
  readonly project?: string
  readonly dataDir?: string
}

/** The exit status of a command that Ctrl+C has ended. */
const interrupted = 130

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

/** Waits for the end. Ctrl+C and the loss of the terminal end the command. */
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

/** Forwards every key, also Ctrl+C, and each new size of the window. */
async function inTerminal(run: ConnectedRun, { keyboard, screen }: Terminal): Promise<RunEnd> {
  const resize = () => run.send({ type: 'resize', ...sizeOf(screen) })
  keyboard.setRawMode(true)
  // Raw mode of Node still converts line ends, but the terminal of the command has already converted them.
  spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] })
  screen.on('resize', resize)
  try {
    return await untilEnd(run)
  } finally {
    screen.off('resize', resize)
    keyboard.setRawMode(false)
  }
}

/** Returns the exit status as a shell does: 128 plus the number of the signal for a command that a signal has ended. */
function statusOf({ code, signal, problem }: RunEnd): number {
  if (code !== null) return code
  if (signal !== null) return 128 + (constants.signals[signal as NodeJS.Signals] ?? 0)
  return problem === null ? 0 : 1
}

/** Less than the time that the server allows for an answer to its ping. */
const lifeMs = 10_000

/** The server pings three times in this time. */
const silenceMs = 60_000

export interface OwnStreams {
  readonly input: NodeJS.ReadableStream
  readonly output: NodeJS.WritableStream
  readonly errors: NodeJS.WritableStream
}

export interface ConnectedRun {
  /** Resolves when the command ends. Rejects when the connection is lost, which also ends the command. */
  readonly ended: Promise<RunEnd>
  send(request: RunRequest): void
  close(): void
}

/** @param address the address of the WebSocket, such as `wss://fairlead.example.com/runs/connect` */
export function connectRun(address: string, ticket: string, streams: OwnStreams): ConnectedRun {
  const socket = new WebSocket(address, [runProtocol, ticket], { handshakeTimeout: silenceMs })
  const send = (request: RunRequest) => {
    if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(request))
  }
  const { promise: ended, resolve, reject } = Promise.withResolvers<RunEnd>()
  socket.once('open', () => passInput(socket, streams.input, () => send({ type: 'end' })))
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary) return passOutput(socket, data, streams)
    const message = readMessage(data.toString())
    if (message?.type === 'exit') resolve(message as unknown as RunEnd)
  })
  // A connection that closes after the end changes nothing, because the promise is already settled.
  const lost = (why: string) => () => reject(new CommandError(why))
  socket.once('unexpected-response', lost('the server refused the connection to the command'))
  socket.once('error', lost('the connection to the server was lost, and the command was ended'))
  socket.once('close', lost('the connection to the server was lost, and the command was ended'))
  showLife(socket)
  endWithServer(socket)
  return { ended, send, close: () => socket.terminate() }
}

/**
 * Tells the server that this client lives, even while it reads nothing and answers no ping: a pager may not read for a
 * long time.
 */
function showLife(socket: WebSocket): void {
  const timer = setInterval(() => {
    if (socket.readyState === socket.OPEN) socket.pong()
  }, lifeMs)
  timer.unref()
  socket.once('close', () => clearInterval(timer))
}

/** Closes the connection when the server is silent. Silence does not count while this client reads nothing. */
function endWithServer(socket: WebSocket): void {
  const timer = setTimeout(() => (socket.isPaused ? timer.refresh() : socket.terminate()), silenceMs)
  timer.unref()
  const alive = () => void timer.refresh()
  socket.on('ping', alive).on('message', alive)
  socket.once('close', () => clearTimeout(timer))
}

function passInput(socket: WebSocket, input: NodeJS.ReadableStream, end: () => void): void {
  input.on('data', (chunk: Buffer) => {
    input.pause()
    socket.send(Buffer.concat([Buffer.of(channels.input), chunk]), { binary: true }, () => input.resume())
  })
  input.once('end', end)
  socket.once('close', () => input.pause())
}

/** Writes the output of the command. The server pauses while a stream is full. */
function passOutput(socket: WebSocket, data: Buffer, { output, errors }: OwnStreams): void {
  const stream = data[0] === channels.errors ? errors : output
  if (stream.write(data.subarray(1))) return
  socket.pause()
  stream.once('drain', () => socket.resume())
}
