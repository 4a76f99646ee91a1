import { z } from 'zod'
import type { Command } from '../../platform/command.ts'
import { imageCommandName } from '../../platform/toolchain.ts'
import { commandEnvironment, variablesOfVolumes } from '../environment.ts'
import { mostOpenFiles, mostProcesses, outOfMemoryScores } from '../limits.ts'
import type { Release } from '../runtime.ts'
import type { ReleasePlace } from '../runtimes.ts'
import type { Container, HostConfig, Image } from './calls.ts'
import { labelsOf, noLabels, projectLabel } from './names.ts'
import type { ContainerNetwork } from './network/networks.ts'
import type { VolumeMount } from './volumes.ts'

/** Everything that a container is made of. */
export interface ContainerRequest {
  readonly server: string
  readonly release: Release
  /** Its name or id. */
  readonly image: string
  /** The image's own settings; null where it has none. */
  readonly config: Image['Config'] | null
  readonly command: Command
  /** The value of `PORT`; null for a command that has none. */
  readonly port: number | null
  readonly network: ContainerNetwork
  /** None unless given. */
  readonly volumes?: readonly VolumeMount[]
  readonly labels: Readonly<Record<string, string>>
  /** For a command that somebody talks to; null for an instance, whose output is kept. */
  readonly dialogue: { readonly tty: boolean } | null
}

/** The `PORT` of an image that names none. Above those that only root may listen on. */
const defaultPort = 8080

/** The one TCP port that the image names by `EXPOSE`, at which programs listen that do not read `PORT`, or a usual one. */
export function portOf({ Config }: Pick<Image, 'Config'>): number {
  const [port, ...others] = exposedPorts(Config?.ExposedPorts)
  return port === undefined || others.length > 0 ? defaultPort : port
}

export const exposedPorts = (exposed: Readonly<Record<string, object>> | null | undefined): number[] =>
  Object.keys(exposed ?? {}).flatMap((name) => {
    const port = /^(\d+)(\/tcp)?$/.exec(name)?.[1]
    return port === undefined ? [] : [Number(port)]
  })

/** The capabilities that programs of images need to start as root and go on as another user. */
const capabilities = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'SETGID', 'SETUID', 'KILL', 'NET_BIND_SERVICE']

/** The engine's own copy of the output, from which the log goes on after a restart of the server. */
const keptOutput = { Type: 'json-file', Config: { 'max-size': '8m', 'max-file': '2' } }
const noOutput = { Type: 'none', Config: {} }

/** Returns the body of the request that makes a container. */
export function specificationOf(request: ContainerRequest): object {
  const { server, release, image, config, command, network, dialogue } = request
  const argv = argvOf(command, config)
  return {
    Image: image,
    // An entry point of one's own also takes the place of the image's arguments. The engine says what is wrong without any.
    ...(argv.length === 0 ? {} : { Entrypoint: [...network.entry, ...argv] }),
    Env: Object.entries(variablesOf(request)).map(([name, value]) => `${name}=${value}`),
    Labels: { ...noLabels, ...labelsOf(server, release), [projectLabel]: release.projectId, ...request.labels },
    NetworkingConfig: network.endpoints(dialogue === null ? release.internalName : null),
    // The image's own check is of what takes connections; another command of the image would never pass it.
    ...(release.internalName === null ? unchecked : seldom(config?.Healthcheck)),
    ...(dialogue === null ? {} : { ...attached, ...unchecked, Tty: dialogue.tty }),
    HostConfig: hostConfigOf(request),
  }
}

/** The command of a release, or that of its image: an entry point, with arguments. */
function argvOf({ argv }: Command, config: ContainerRequest['config']): readonly string[] {
  return argv[0] === imageCommandName ? [...(config?.Entrypoint ?? []), ...(config?.Cmd ?? [])] : argv
}

/** Returns the variables besides those of the image. A release that was built in folders has those that its build had. */
function variablesOf({ release, config, command, port }: ContainerRequest): Readonly<Record<string, string>> {
  const place = placeOf(config?.Labels)
  if (place !== null) {
    const { id, variables, volumes } = release
    // There is no cache: nothing is built in a container.
    const paths = { ...place, cache: place.temporary }
    const { memoryBytes } = release.limits
    const scope = { kind: 'app', port } as const
    return commandEnvironment({ id, paths, variables, volumeFolders: volumes }, command, {
      scope,
      bin: place.bin,
      memoryBytes,
    })
  }
  const { PORT: _, ...own } = release.variables
  return {
    ...command.env,
    ...own,
    ...(port === null ? {} : { PORT: String(port) }),
    ...variablesOfVolumes(release.volumes),
  }
}

/** The engine starts a program for each check of an image's health, which does not count as the app's. */
const shortestIntervalNs = 5e9

/** Returns the settings that make the checks of an image's health less frequent, where they are too many. */
function seldom(check: NonNullable<ContainerRequest['config']>['Healthcheck']): object {
  const times = { Interval: check?.Interval ?? 0, StartInterval: check?.StartInterval ?? 0 }
  // Zero stands for the engine's default. It checks again at once after a time below that, which only a forged image has.
  const short = Object.entries(times).filter(([, time]) => time !== 0 && time < shortestIntervalNs)
  if (short.length === 0) return {}
  return { Healthcheck: Object.fromEntries(short.map(([name]) => [name, shortestIntervalNs])) }
}

const unchecked = { Healthcheck: { Test: ['NONE'] } }
const attached = { AttachStdin: true, AttachStdout: true, AttachStderr: true, OpenStdin: true, StdinOnce: true }

/** Folders in memory in place of those that programs write to without being asked, as builds and processes have them. */
const inMemory = Object.fromEntries(['/tmp', '/run'].map((folder) => [folder, 'rw,nosuid,nodev,size=64m,mode=1777']))

/** The kernel's own. */
const cpuPeriodMicros = 100_000

function hostConfigOf({ release: { limits }, command, network, volumes = [], dialogue }: ContainerRequest): HostConfig {
  return {
    ...(command.readOnly === true ? { ReadonlyRootfs: true, Tmpfs: inMemory } : {}),
    ...network.hostConfig,
    Mounts: [...network.hostConfig.Mounts, ...volumes],
    Memory: limits.memoryBytes,
    // No swap besides it.
    MemorySwap: limits.memoryBytes,
    // The engine refuses `NanoCpus` of more than the machine has, which a plan may allow.
    CpuPeriod: cpuPeriodMicros,
    CpuQuota: Math.round(limits.cpus * cpuPeriodMicros),
    PidsLimit: mostProcesses,
    OomScoreAdj: outOfMemoryScores.app,
    Ulimits: [{ Name: 'nofile', Soft: mostOpenFiles, Hard: mostOpenFiles }],
    CapDrop: ['ALL'],
    CapAdd: capabilities,
    SecurityOpt: ['no-new-privileges'],
    // The first process, which waits for orphans and passes signals on.
    Init: true,
    IpcMode: 'private',
    CgroupnsMode: 'private',
    // The reconciler starts what has ended.
    RestartPolicy: { Name: 'no' },
    LogConfig: dialogue === null ? keptOutput : noOutput,
  }
}

/**
 * Returns what a container has that it should not have, or lacks, before anything runs in it: an engine drops settings that
 * it does not know, without an error. Null when nothing is wrong.
 */
export function unconfined(
  { HostConfig: has }: Pick<Container, 'HostConfig'>,
  { network: { hostConfig }, command, volumes = [] }: Pick<ContainerRequest, 'network' | 'command' | 'volumes'>,
): string | null {
  const { NetworkMode, Mounts } = hostConfig
  const sources = (mounts: HostConfig['Mounts']) => (mounts ?? []).map(({ Source }) => Source)
  const wrong: Readonly<Record<string, boolean>> = {
    'no-new-privileges is missing': has.SecurityOpt?.some((option) => option.startsWith('no-new-privileges')) !== true,
    'a profile is turned off': has.SecurityOpt?.some((option) => option.endsWith('unconfined')) === true,
    'it is privileged': has.Privileged === true,
    'it has more capabilities': !isSame(has.CapAdd ?? [], capabilities) || !isSame(has.CapDrop ?? [], ['ALL']),
    'it has folders of the host':
      (has.Binds ?? []).length > 0 || !isSame(sources(has.Mounts), sources([...Mounts, ...volumes])),
    'its files can be written to': command.readOnly === true && has.ReadonlyRootfs !== true,
    'it has devices of the host': (has.Devices ?? []).length > 0,
    'it publishes ports': Object.keys(has.PortBindings ?? {}).length > 0,
    'it is in another network': has.NetworkMode !== NetworkMode || NetworkMode === 'host',
    'it shares a namespace of the host': [has.PidMode, has.IpcMode, has.UTSMode, has.UsernsMode].includes('host'),
  }
  return Object.keys(wrong).find((problem) => wrong[problem] === true) ?? null
}

const isSame = (some: readonly string[], others: readonly string[]): boolean =>
  some
    .map((name) => name.replace(/^CAP_/, ''))
    .sort()
    .join() === [...others].sort().join()

/** The label of an image that was made of a release that was built in folders: the places that its commands know. */
export const placeLabel = 'app.fairlead.place'

const absolute = z.string().startsWith('/')
const shape = z.object({ source: absolute, home: absolute, temporary: absolute, bin: absolute })

/** Returns the places in an image; null for an image that was made in any other way. A forged label gives its own container another environment alone. */
function placeOf(labels: Readonly<Record<string, string>> | null | undefined): ReleasePlace | null {
  const text = labels?.[placeLabel]
  if (text === undefined) return null
  try {
    return shape.parse(JSON.parse(text))
  } catch {
    return null
  }
}
