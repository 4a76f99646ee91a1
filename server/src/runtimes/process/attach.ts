import { randomUUID } from 'node:crypto'
import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { endedOrAborted } from '../../platform/abort.ts'
import { isRunning, killAll } from '../../platform/processes.ts'
import { type AttachRequest, type Exit, RuntimeError } from '../runtime.ts'
import type { CommandStarter } from './commands.ts'
import type { Confinement } from './confinement/confinement.ts'
import type { Launch } from './launch/launch.ts'
import type { LocalRelease } from './release/layout.ts'
import type { LocalInstance } from './release/local-instance.ts'

/** Every process of a one-off command carries the command's id in this variable, by which its strays are found. */
const commandMarker = 'FAIRLEAD_COMMAND_ID'

const stopGraceMs = 5_000

export interface AttachParts {
  readonly confinement: Pick<Confinement, 'join' | 'watch'>
  readonly startCommand: CommandStarter
}

/**
 * Runs a one-off command beside a running instance, in the same confinement. Ends it with SIGTERM, then SIGKILL, when
 * `request.signal` aborts. Resolves when its output has been passed on; the streams of the request stay open.
 */
export async function attach(
  { confinement, startCommand }: AttachParts,
  release: LocalRelease,
  instance: LocalInstance,
  request: AttachRequest,
): Promise<Exit> {
  const { argv, signal } = request
  if (request.tty !== null) {
    throw new RuntimeError('no_terminal', 'Apps run as plain processes here: run the command without a terminal.')
  }
  signal.throwIfAborted()
  if (!isRunning(instance)) throw new Error('the instance has ended: a command can only run beside a running one')
  const marker = { name: commandMarker, value: randomUUID() }
  const launched = await startCommand(
    { ...release, variables: { ...release.variables, [marker.name]: marker.value } },
    { argv },
    { scope: { kind: 'app', port: instance.port }, entry: confinement.join(release), output: 'pipes' },
  )
  if (!launched.ok) {
    request.stderr.write(`${launched.message}\n`)
    return { code: launched.code, signal: null, exceeded: null }
  }
  const endWatch = confinement.watch(release, 'command', launched.process)
  const streams = connect(launched.child, request)
  try {
    await endedOrAborted(launched.exited, signal)
    const graceMs = signal.aborted ? stopGraceMs : 0
    await killAll({ marker, leaders: [launched.process] }, { graceMs })
    // A process that has escaped may keep the output open: then the request's signal ends the wait.
    await endedOrAborted(streams.passedOn, signal)
    return { ...(await launched.exited), exceeded: null }
  } finally {
    endWatch()
    streams.disconnect()
  }
}

type Child = Extract<Launch, { ok: true }>['child']

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
