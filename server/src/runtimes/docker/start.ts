import { randomUUID } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import type { Command } from '../../platform/command.ts'
import type { Exit, Handle, Release } from '../runtime.ts'
import type { Containers } from './calls.ts'
import { exitOf } from './end.ts'
import { EngineError } from './errors.ts'
import { imageOf, unitLabel } from './names.ts'
import type { ContainerNetwork, ContainerNetworks } from './network/networks.ts'
import type { Outputs } from './output.ts'
import { type ContainerRequest, portOf, specificationOf, unconfined } from './specification.ts'
import { type Volumes, VolumesNeedRoot } from './volumes.ts'

export interface StartParts {
  readonly server: string
  readonly containers: Containers
  readonly networks: Pick<ContainerNetworks, 'join'>
  readonly outputs: Pick<Outputs, 'follow'>
  readonly volumes: Volumes
}

/** A started instance, and its exit when its command could not start. */
export interface Started {
  readonly instance: ContainerInstance
  readonly exit: Exit | null
}

export async function startContainer(
  parts: StartParts,
  release: Release,
  command: Command,
  output: FileHandle,
  unit: string,
): Promise<Started> {
  return parts.networks.join(release.projectId, (network) => startIn(parts, network, release, command, output, unit))
}

async function startIn(
  { server, containers, outputs, volumes }: StartParts,
  network: ContainerNetwork,
  release: Release,
  command: Command,
  output: FileHandle,
  unit: string,
): Promise<Started> {
  const image = imageOf(server, release)
  const { Config: config = null } = (await containers.image(image)) ?? {}
  const port = portOf({ Config: config })
  const labels = { [unitLabel]: unit }
  const request = { server, release, image, config, command, port, network, labels, dialogue: null }
  const instance = { releaseId: release.id, port }
  let id: string | null = null
  try {
    const asked = { ...request, volumes: await volumes.ready(release, image) }
    id = await containers.create(specificationOf(asked))
    await assertConfined(containers, id, asked)
    await containers.start(id)
    await outputs.follow(id, output)
    return { instance: { ...instance, container: id }, exit: null }
  } catch (error) {
    if (id !== null) await containers.remove(id)
    const reason = imageFault(error)
    if (reason === null) throw error
    await output.write(`${reason.line}\n`)
    return { instance: { ...instance, container: `none-${randomUUID()}` }, exit: exitOf(reason.code) }
  }
}

/** @throws Error when the container lacks a requested protection */
export async function assertConfined(
  containers: Pick<Containers, 'inspect'>,
  id: string,
  asked: Pick<ContainerRequest, 'network' | 'command' | 'volumes'>,
): Promise<void> {
  const made = await containers.inspect(id)
  if (made === null) throw new Error('the container is gone before it was started')
  const problem = unconfined(made, asked)
  if (problem !== null) throw new Error(`the engine has not made the container as it was asked to: ${problem}`)
}

/** The image causes these refusals. The engine's words contain paths of this machine. */
const faults: readonly { readonly words: RegExp; readonly code: number; readonly line: string }[] = [
  {
    words: /mount a directory onto a file/i,
    code: 126,
    line: 'Fairlead: the image has a file at the path of a volume: choose the path of a folder in "volumes".',
  },
  {
    words: /no command specified/i,
    code: 127,
    line: 'Fairlead: the image names no command. Add CMD or ENTRYPOINT to its Dockerfile.',
  },
  {
    words: /unable to find (user|group)|no matching entries in (passwd|group) file|invalid (uid|gid)/i,
    code: 126,
    line: 'Fairlead: the image has no user of the name that its USER instruction gives.',
  },
  {
    words: /executable file not found|no such file or directory/i,
    code: 127,
    line: 'Fairlead: the image has no program of the name of its command.',
  },
  {
    words: /permission denied|exec format error|not a directory|is a directory/i,
    code: 126,
    line: 'Fairlead: the command of the image cannot be run: see its command, WORKDIR and the rights of their files.',
  },
]

/** Returns the fault of the release that prevented the start of a container; null for any other failure. */
export function imageFault(error: unknown): { readonly code: number; readonly line: string } | null {
  if (error instanceof VolumesNeedRoot) {
    return { code: 126, line: `Fairlead: ${error.message}. Ask the operator, or remove "volumes".` }
  }
  if (!(error instanceof EngineError) || error.status === null) return null
  // Other failures contain such words, too, but not when the engine runs the program.
  const isStart = /OCI runtime|runc|no command specified|unable to find|no matching entries/i.test(error.detail)
  return isStart ? (faults.find(({ words }) => words.test(error.detail)) ?? null) : null
}

export const runtimeName = 'docker'

export interface ContainerInstance {
  readonly container: string
  readonly releaseId: string
  /** The value of `PORT`. */
  readonly port: number
  /** The port that serves the instance in place of `PORT`. */
  readonly servedPort?: number
}

export const toHandle = (instance: ContainerInstance): Handle => ({ runtime: runtimeName, data: { ...instance } })

/** @throws Error for a handle of another runtime */
export function fromHandle({ runtime, data }: Handle): ContainerInstance {
  const { container, releaseId, port, servedPort } = data
  if (runtime !== runtimeName || typeof container !== 'string' || typeof releaseId !== 'string') {
    throw new Error(`this is not an instance of the runtime "${runtimeName}": ${JSON.stringify(data)}`)
  }
  return {
    container,
    releaseId,
    port: Number(port),
    ...(servedPort === undefined ? {} : { servedPort: Number(servedPort) }),
  }
}
