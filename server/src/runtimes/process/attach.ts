import { randomUUID } from 'node:crypto'
import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { endedOrAborted } from '../../platform/abort.ts'
import { isRunning, killAll } from '../../platform/processes.ts'
import { type AttachRequest, type Exit, RuntimeError } from '../runtime.ts'
import type { Confinement } from './confinement/confinement.ts'
import { type LocalInstance, unitOf } from './handle.ts'
import type { CommandStarter, Launch } from './launch.ts'
import type { LocalRelease } from './release-folders.ts'
import { hasTerminals, openTerminal, type Terminal } from './terminal/terminal.ts'

/** The server finds stray processes of a one-off command by this variable. */
const commandMarker = 'FAIRLEAD_COMMAND_ID'

const stopGraceMs = 5_000

export interface AttachParts {
  readonly confinement: Pick<Confinement, 'join' | 'watch'>
  readonly startCommand: CommandStarter
}

/**
 * Runs a command beside an instance, in the same confinement. When `request.signal` aborts, the command gets SIGTERM,
 * then SIGKILL. Resolves when all output was passed on; the request's streams stay open.
 */
export async function attach(
  { confinement, startCommand }: AttachParts,
  release: LocalRelease,
  instance: LocalInstance,
  request: AttachRequest,
): Promise<Exit> {
  const { signal } = request
  if (request.tty !== null && !hasTerminals()) {
    throw new RuntimeError('no_terminal', 'This server has no terminals for commands: run the command without one.')
  }
  if (instance.site !== undefined) {
    throw new RuntimeError('no_process', 'A static site runs no process, so that no command can run beside it.')
  }
  signal.throwIfAborted()
  if (!isRunning(instance)) {
    throw new RuntimeError('not_running', 'The instance has ended: a command can only run beside a running one.')
  }
  const terminal = request.tty === null ? null : await openTerminal(request.tty)
  try {
    return await runAttached({ confinement, startCommand }, { release, instance, request, terminal })
  } finally {
    terminal?.release()
    terminal?.close()
  }
}

interface Attached {
  readonly release: LocalRelease
  readonly instance: LocalInstance
  readonly request: AttachRequest
  readonly terminal: Terminal | null
}

async function runAttached({ confinement, startCommand }: AttachParts, attached: Attached): Promise<Exit> {
  const { release, instance, request, terminal } = attached
  const { argv, signal } = request
  const unit = { ...release, id: unitOf(instance) }
  const marker = { name: commandMarker, value: randomUUID() }
  const launched = await startCommand(
    { ...release, variables: { ...release.variables, [marker.name]: marker.value } },
    { argv, ...(terminal === null ? {} : { env: { TERM: 'xterm-256color' } }) },
    {
      scope: { kind: 'app', port: instance.port },
      entry: confinement.join(unit, instance),
      output: terminal === null ? 'pipes' : { terminal: terminal.device },
      unit: unit.id,
    },
  )
  if (!launched.ok) {
    const stream = terminal === null ? request.stderr : request.stdout
    stream.write(terminal === null ? `${launched.message}\n` : `${launched.message}\r\n`)
    return { code: launched.code, signal: null, exceeded: null }
  }
  const endWatch = confinement.watch(unit, 'command', launched.process)
  terminal?.release()
  if (terminal !== null) request.onResizable?.(terminal.resize)
  const streams = connect(streamsOf(launched.child, terminal), request)
  try {
    await endedOrAborted(launched.exited, signal)
    // A shell ignores SIGTERM, but ends with its terminal.
    if (signal.aborted) terminal?.close()
    const graceMs = signal.aborted ? stopGraceMs : 0
    await killAll({ marker, leaders: [launched.process] }, { graceMs })
    // An escaped process may keep the output open. Then the request's signal ends the wait.
    await endedOrAborted(streams.passedOn, signal)
    return { ...(await launched.exited), exceeded: null }
  } finally {
    endWatch()
    streams.disconnect()
  }
}

type Child = Pick<Extract<Launch, { ok: true }>['child'], 'stdin' | 'stdout' | 'stderr'>

const streamsOf = (child: Child, terminal: Terminal | null): Child =>
  terminal === null ? child : { stdin: terminal.keyboard, stdout: terminal.screen, stderr: null }

function connect(
  { stdin, stdout, stderr }: Child,
  request: Pick<AttachRequest, 'stdin' | 'stdout' | 'stderr'>,
): { passedOn: Promise<unknown>; disconnect: () => void } {
  const endInput = () => stdin?.end()
  if (stdin !== null) {
    // The command may end before it has read everything.
    stdin.on('error', () => undefined)
    request.stdin.once('close', endInput).once('error', endInput)
    if (request.stdin.readableEnded || request.stdin.destroyed) endInput()
    else request.stdin.pipe(stdin)
  }
  return {
    passedOn: Promise.all([passOn(stdout, request.stdout), passOn(stderr, request.stderr)]),
    disconnect() {
      request.stdin.off('close', endInput).off('error', endInput)
      if (stdin !== null) request.stdin.unpipe(stdin)
      for (const stream of [stdin, stdout, stderr]) stream?.destroy()
    },
  }
}

/** Resolves when everything was passed on, or the target was destroyed. */
async function passOn(from: Readable | null, to: Writable): Promise<void> {
  if (from !== null) await pipeline(from, to, { end: false }).catch(() => undefined)
}
