import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { endedOrAborted } from '../../platform/abort.ts'
import { type AttachRequest, type Exit, type Release, RuntimeError } from '../runtime.ts'
import type { Containers, Waiters } from './calls.ts'
import type { Engine } from './client.ts'
import { endContainer, exitOf } from './end.ts'
import { networkOfContainer } from './network/networks.ts'
import { type ContainerRequest, specificationOf } from './specification.ts'
import { assertConfined, type ContainerInstance, imageFault } from './start.ts'
import { readFrames } from './streams.ts'
import type { Volumes } from './volumes.ts'

const stopGraceMs = 5_000
const killed = 137
const removed =
  'The container of the command was removed before it told how it ended, as docker container prune does: nobody knows whether it has ' +
  'done its work. Try again, and ask the operator of the server if it happens again.'

export interface AttachParts {
  readonly server: string
  readonly engine: Engine
  readonly containers: Containers
}

/**
 * Runs a one-off command in a separate container with the image, the variables and the limits of the release, in the
 * network of the instance, and removes it afterwards. In the instance's container, the command would share its memory,
 * and the engine could not end it.
 */
export async function attach(
  {
    server,
    waiters,
    engine,
    containers,
    volumes,
  }: AttachParts & {
    readonly waiters: Waiters
    readonly volumes: Volumes
  },
  release: Release,
  instance: ContainerInstance,
  request: AttachRequest,
): Promise<Exit> {
  const { argv, tty, signal } = request
  signal.throwIfAborted()
  const beside = await containers.inspect(instance.container)
  if (beside?.State.Running !== true) {
    throw new RuntimeError('not_running', 'The instance has ended: a command can only run beside a running one.')
  }
  const { Config: config = null } = (await containers.image(beside.Image)) ?? {}
  const asked = {
    ...{
      release,
      network: networkOfContainer(instance.container, beside.HostConfig.Mounts ?? []),
      port: instance.port,
      config,
    },
    // The name may point to a newer image by now.
    image: beside.Image,
    command: { argv, ...(tty === null ? {} : { env: { TERM: 'xterm-256color' } }) },
    volumes: await volumes.ready(release, beside.Image),
  }
  return waiters.during(instance.container, (labels) =>
    runInContainer({ server, engine, containers }, { ...asked, labels }, request, { graceMs: stopGraceMs }),
  )
}

/**
 * Runs a command in a container and removes the container at its end. Resolves with the exit, also when the signal
 * aborts and ends the command.
 *
 * @param options.graceMs the time between the request to end and the kill
 */
export async function runInContainer(
  { server, engine, containers }: AttachParts,
  asked: Omit<ContainerRequest, 'server' | 'dialogue'>,
  request: AttachRequest,
  options: { readonly graceMs: number },
): Promise<Exit> {
  const dialogue = { tty: request.tty !== null }
  const id = await containers.create(specificationOf({ ...asked, server, dialogue }))
  try {
    await assertConfined(containers, id, asked)
    return await talk({ engine, containers }, id, request, options)
  } catch (error) {
    const fault = imageFault(error)
    if (fault === null) throw error
    request.stderr.write(`${fault.line}\n`)
    return exitOf(fault.code)
  } finally {
    await containers.remove(id)
  }
}

async function talk(
  { engine, containers }: Pick<AttachParts, 'engine' | 'containers'>,
  id: string,
  request: AttachRequest,
  options: { readonly graceMs: number },
): Promise<Exit> {
  const { tty, signal } = request
  const line = await engine.upgrade({
    method: 'POST',
    path: ['containers', id, 'attach'],
    query: { stream: true, stdin: true, stdout: true, stderr: true },
  })
  const output = tty === null ? passOnFrames(line, request) : passOnScreen(line, request)
  const resize = async (columns: number, rows: number): Promise<void> => {
    await engine.call({ method: 'POST', path: ['containers', id, 'resize'], query: { w: columns, h: rows } })
  }
  try {
    await containers.start(id)
    const ended = containers.ended(id)
    ended.catch(() => undefined)
    if (tty !== null) {
      await resize(tty.columns, tty.rows).catch(() => undefined)
      request.onResizable?.((columns, rows) => void resize(columns, rows).catch(() => undefined))
    }
    const disconnect = passInput(request, line)
    await endedOrAborted(ended, signal).finally(disconnect)
    if (signal.aborted) await endContainer(containers, id, options)
    await endedOrAborted(output, signal)
    const status = await ended
    if (status !== null) return exitOf(status)
    if (signal.aborted) return exitOf(killed)
    throw new RuntimeError('container_removed', removed)
  } finally {
    line.destroy()
  }
}

function passInput({ stdin }: Pick<AttachRequest, 'stdin'>, line: Duplex): () => void {
  const end = () => line.end()
  // The command may end before it has read everything.
  line.on('error', () => undefined)
  stdin.once('close', end).once('error', end)
  if (stdin.readableEnded || stdin.destroyed) end()
  else stdin.pipe(line)
  return () => {
    stdin.off('close', end).off('error', end)
    stdin.unpipe(line)
  }
}

/** Resolves when all output was passed on, or the target was destroyed. */
async function passOnFrames(line: Duplex, { stdout, stderr }: Pick<AttachRequest, 'stdout' | 'stderr'>): Promise<void> {
  try {
    for await (const { stream, bytes } of readFrames(line)) {
      const target = stream === 'stdout' ? stdout : stderr
      if (target.destroyed) return
      if (!target.write(bytes)) await drained(target)
    }
  } catch {
    // The connection is lost, or the client is gone: the exit status tells more.
  }
}

const drained = (target: AttachRequest['stdout']): Promise<void> =>
  new Promise((resolve) => {
    target
      .once('drain', resolve)
      .once('close', resolve)
      .once('error', () => resolve())
  })

async function passOnScreen(line: Duplex, { stdout }: Pick<AttachRequest, 'stdout'>): Promise<void> {
  await pipeline(line, stdout, { end: false }).catch(() => undefined)
}
