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

export interface ContainerRequest {
  readonly server: string
  readonly release: Release
  /** The name or id of the image. */
  readonly image: string
  readonly config: Image['Config'] | null
  readonly command: Command
  /** The value of `PORT`; null for a command without a port. */
  readonly port: number | null
  readonly network: ContainerNetwork
  readonly volumes?: readonly VolumeMount[]
  readonly labels: Readonly<Record<string, string>>
  /** Set for an interactive command; null for an instance, whose output is kept. */
  readonly dialogue: { readonly tty: boolean } | null
}

/** The `PORT` of an image without exactly one exposed port. It is above the ports that only root may use. */
const defaultPort = 8080

/**
 * Returns the only TCP port that the image exposes, where programs may listen without reading `PORT`; otherwise the
 * default port.
 */
export function portOf({ Config }: Pick<Image, 'Config'>): number {
  const [port, ...others] = exposedPorts(Config?.ExposedPorts)
  return port === undefined || others.length > 0 ? defaultPort : port
}

export const exposedPorts = (exposed: Readonly<Record<string, object>> | null | undefined): number[] =>
  Object.keys(exposed ?? {}).flatMap((name) => {
    const port = /^(\d+)(\/tcp)?$/.exec(name)?.[1]
    return port === undefined ? [] : [Number(port)]
  })

/** The capabilities that programs need to start as root and continue as another user. */
const capabilities = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'SETGID', 'SETUID', 'KILL', 'NET_BIND_SERVICE']

/** The log continues from this copy after a restart of the server. */
const keptOutput = { Type: 'json-file', Config: { 'max-size': '8m', 'max-file': '2' } }
const noOutput = { Type: 'none', Config: {} }

export function specificationOf(request: ContainerRequest): object {
  const { server, release, image, config, command, network, dialogue } = request
  const argv = argvOf(command, config)
  return {
    Image: image,
    // A custom entry point also replaces the image's arguments. Without any command, the engine reports the error.
    ...(argv.length === 0 ? {} : { Entrypoint: [...network.entry, ...argv] }),
    Env: Object.entries(variablesOf(request)).map(([name, value]) => `${name}=${value}`),
    Labels: { ...noLabels, ...labelsOf(server, release), [projectLabel]: release.projectId, ...request.labels },
    NetworkingConfig: network.endpoints(dialogue === null ? release.internalName : null),
    // The image's check is for the app that takes connections. Another command would never pass it.
    ...(release.internalName === null ? unchecked : seldom(config?.Healthcheck)),
    ...(dialogue === null ? {} : { ...attached, ...unchecked, Tty: dialogue.tty }),
    HostConfig: hostConfigOf(request),
  }
}

/** Returns the command of a release, or the command of its image: an entry point with arguments. */
function argvOf({ argv }: Command, config: ContainerRequest['config']): readonly string[] {
  return argv[0] === imageCommandName ? [...(config?.Entrypoint ?? []), ...(config?.Cmd ?? [])] : argv
}

/**
 * Returns the variables in addition to the variables of the image. A release that was built in folders has the
 * variables of its build.
 */
function variablesOf({ release, config, command, port }: ContainerRequest): Readonly<Record<string, string>> {
  const place = placeOf(config?.Labels)
  if (place !== null) {
    const { id, variables, volumes } = release
    // Containers build nothing, so they have no cache.
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

/** The engine starts a program for each health check, which does not count as the app's. */
const shortestIntervalNs = 5e9

function seldom(check: NonNullable<ContainerRequest['config']>['Healthcheck']): object {
  const times = { Interval: check?.Interval ?? 0, StartInterval: check?.StartInterval ?? 0 }
  // Zero is the engine's default. A negative time, only in a forged image, makes the engine check again immediately.
  const short = Object.entries(times).filter(([, time]) => time !== 0 && time < shortestIntervalNs)
  if (short.length === 0) return {}
  return { Healthcheck: Object.fromEntries(short.map(([name]) => [name, shortestIntervalNs])) }
}

const unchecked = { Healthcheck: { Test: ['NONE'] } }
const attached = { AttachStdin: true, AttachStdout: true, AttachStderr: true, OpenStdin: true, StdinOnce: true }

/** In-memory folders for the paths where programs write by default, as for builds and processes. */
const inMemory = Object.fromEntries(['/tmp', '/run'].map((folder) => [folder, 'rw,nosuid,nodev,size=64m,mode=1777']))

/** The kernel's default. */
const cpuPeriodMicros = 100_000

function hostConfigOf({ release: { limits }, command, network, volumes = [], dialogue }: ContainerRequest): HostConfig {
  return {
    ...(command.readOnly === true ? { ReadonlyRootfs: true, Tmpfs: inMemory } : {}),
    ...network.hostConfig,
    Mounts: [...network.hostConfig.Mounts, ...volumes],
    Memory: limits.memoryBytes,
    // No additional swap.
    MemorySwap: limits.memoryBytes,
    // The engine refuses a `NanoCpus` above the machine's CPUs, which a plan may allow.
    CpuPeriod: cpuPeriodMicros,
    CpuQuota: Math.round(limits.cpus * cpuPeriodMicros),
    PidsLimit: mostProcesses,
    OomScoreAdj: outOfMemoryScores.app,
    Ulimits: [{ Name: 'nofile', Soft: mostOpenFiles, Hard: mostOpenFiles }],
    CapDrop: ['ALL'],
    CapAdd: capabilities,
    SecurityOpt: ['no-new-privileges'],
    // An init process, which waits for orphans and forwards signals.
    Init: true,
    IpcMode: 'private',
    CgroupnsMode: 'private',
    // The reconciler restarts ended instances.
    RestartPolicy: { Name: 'no' },
    LogConfig: dialogue === null ? keptOutput : noOutput,
  }
}

/**
 * Compares a new container with its specification before anything runs in it: an engine silently drops unknown
 * settings. Returns the difference in protection; null when there is none.
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

/** The label of an image from a release that was built in folders: the paths that its commands know. */
export const placeLabel = 'app.fairlead.place'

const absolute = z.string().startsWith('/')
const shape = z.object({ source: absolute, home: absolute, temporary: absolute, bin: absolute })

/**
 * Returns the places in the label of an image; null for other images. A forged label only changes the environment of
 * that container.
 */
function placeOf(labels: Readonly<Record<string, string>> | null | undefined): ReleasePlace | null {
  const text = labels?.[placeLabel]
  if (text === undefined) return null
  try {
    return shape.parse(JSON.parse(text))
  } catch {
    return null
  }
}
