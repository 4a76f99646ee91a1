import { availableParallelism, totalmem } from 'node:os'
import { z } from 'zod'
import { parseImageReference } from '../../contract/image-reference.ts'
import { absolutePaths, jsonVariables, list, megabytes, type Range, range, seconds } from './values.ts'

export interface DeploysConfig {
  readonly releasePorts: Range
  /** The most builds that run at the same time. */
  readonly builds: number
  readonly buildMemoryBytes: number
  readonly fetchTimeoutMs: number
  readonly buildTimeoutMs: number
  readonly startTimeoutMs: number
  /** How long an app must stay up after its first successful health check. */
  readonly stableMs: number
  /** How long an old release may finish its requests after a switch. */
  readonly drainMs: number
  readonly mostSourceBytes: number
  /** How many days an uploaded source is kept after its last use. */
  readonly sourceRetentionDays: number
  readonly mostReleaseBytes: number
  /** The most disk space for one cache: the packages of an app, or a repository. */
  readonly mostEachCacheBytes: number
  readonly mostAllCachesBytes: number
  /** Free disk space below which nothing is accepted or built. */
  readonly reserveBytes: number
  /** Folders whose git repositories every account may deploy, as `file:` addresses. */
  readonly fileSources: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** Images of the Docker engine that every Dockerfile may begin with. */
  readonly baseImages: readonly string[]
}

export const deploysSettings = {
  // Below the ports of outgoing connections, like the other ranges.
  FAIRLEAD_RELEASE_PORTS: range.default({ from: 10000, to: 19999 }),
  FAIRLEAD_BUILDS: z
    .string()
    .regex(/^[1-9]\d{0,2}$/, 'must be a whole number from 1 to 999')
    .transform(Number)
    .optional(),
  // With less, not even a package manager can run.
  FAIRLEAD_BUILD_MEMORY_MB: megabytes.refine((bytes) => bytes >= 128_000_000, 'must be at least 128').optional(),
  FAIRLEAD_FETCH_TIMEOUT: seconds.default(120_000),
  FAIRLEAD_BUILD_TIMEOUT: seconds.default(900_000),
  FAIRLEAD_START_TIMEOUT: seconds.default(60_000),
  FAIRLEAD_STABLE_TIME: seconds.default(1_000),
  FAIRLEAD_DRAIN_TIMEOUT: seconds.default(30_000),
  FAIRLEAD_SOURCE_MB: megabytes.default(1_000_000_000),
  FAIRLEAD_SOURCE_RETENTION: z
    .string()
    .regex(/^[1-9]\d{0,3}$/, 'must be a number of days')
    .transform(Number)
    .default(7),
  FAIRLEAD_RELEASE_MB: megabytes.default(4_000_000_000),
  FAIRLEAD_APP_MB: megabytes.optional(),
  FAIRLEAD_CACHE_MB: megabytes.default(2_000_000_000),
  FAIRLEAD_ALL_CACHES_MB: megabytes.default(20_000_000_000),
  FAIRLEAD_RESERVE_MB: megabytes.default(1_000_000_000),
  FAIRLEAD_FILE_SOURCES: absolutePaths.default([]),
  FAIRLEAD_BUILD_ENV: jsonVariables.default({}),
  FAIRLEAD_BASE_IMAGES: list.default([]),
}

export type DeploysSet = z.output<z.ZodObject<typeof deploysSettings>>

/** Returns the disk space of apps, as `effectivePlans` takes it. */
export const appDisk = ({ FAIRLEAD_APP_MB, FAIRLEAD_RELEASE_MB }: DeploysSet) => ({
  // The largest release can start, and has room to write.
  defaultBytes: 2 * FAIRLEAD_RELEASE_MB,
  mostBytes: FAIRLEAD_APP_MB ?? null,
})

export function deploysConfig(set: DeploysSet): DeploysConfig {
  return {
    releasePorts: set.FAIRLEAD_RELEASE_PORTS,
    builds: set.FAIRLEAD_BUILDS ?? Math.max(1, Math.floor(availableParallelism() / 2)),
    buildMemoryBytes: set.FAIRLEAD_BUILD_MEMORY_MB ?? defaultBuildMemory(machineBytes()),
    fetchTimeoutMs: set.FAIRLEAD_FETCH_TIMEOUT,
    buildTimeoutMs: set.FAIRLEAD_BUILD_TIMEOUT,
    startTimeoutMs: set.FAIRLEAD_START_TIMEOUT,
    stableMs: set.FAIRLEAD_STABLE_TIME,
    drainMs: set.FAIRLEAD_DRAIN_TIMEOUT,
    mostSourceBytes: set.FAIRLEAD_SOURCE_MB,
    sourceRetentionDays: set.FAIRLEAD_SOURCE_RETENTION,
    mostReleaseBytes: set.FAIRLEAD_RELEASE_MB,
    mostEachCacheBytes: set.FAIRLEAD_CACHE_MB,
    mostAllCachesBytes: set.FAIRLEAD_ALL_CACHES_MB,
    reserveBytes: set.FAIRLEAD_RESERVE_MB,
    fileSources: set.FAIRLEAD_FILE_SOURCES,
    environment: set.FAIRLEAD_BUILD_ENV,
    baseImages: set.FAIRLEAD_BASE_IMAGES,
  }
}

/** Frameworks need 600 to 1,500 MB to build. A small machine needs the other half for everything else. */
export const defaultBuildMemory = (machine: number): number =>
  Math.min(2_000_000_000, Math.floor(machine / 2 / 1_000_000) * 1_000_000)

/** Returns the bytes of memory for the server and its child processes. A container may have less than the machine. */
export const machineBytes = (): number => Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY)

export interface DockerConfig {
  /** The absolute path of its socket. */
  readonly socket: string
  /** Set when all apps run in containers and none runs as a process. */
  readonly alone: {
    /** The base of generated images; null for the programs of this machine. */
    readonly base: string | null
  } | null
}

/** Docker's default on every system. */
const defaultSocket = '/var/run/docker.sock'

const socketAddress = z.string().transform((value, context): string => {
  const path = /^unix:\/\/(\/.+)$/.exec(value)?.[1]
  if (path !== undefined) return path
  const reason = value.startsWith('tcp://')
    ? 'must be unix:// and the path of a socket: everybody who reaches an engine over the network is root on its machine'
    : 'must be unix:// and the absolute path of a socket, such as unix:///var/run/docker.sock'
  context.addIssue({ code: 'custom', message: `${reason}. FAIRLEAD_RUNTIME=process leaves Docker alone` })
  return z.NEVER
})

export const dockerSettings = {
  /** A socket does not enable Docker: it must be named here. */
  FAIRLEAD_RUNTIME: z
    .enum(['process', 'process,docker', 'docker'], {
      error: 'must be process, process,docker to run containers, too, or docker to run only containers',
    })
    .optional(),
  DOCKER_HOST: z.string().optional(),
  FAIRLEAD_DOCKER_BASE: z
    .string()
    .refine((text) => !('problem' in parseImageReference(text)), {
      error: 'must be the name of an image, such as docker.io/library/debian:12',
    })
    .optional(),
}

const whole = z.object(dockerSettings)
export type DockerSet = z.output<typeof whole>

/** Returns the problem of `DOCKER_HOST` for a server that runs containers; null when there is none. */
export function dockerProblem(set: DockerSet): string | null {
  if (!isWanted(set)) return null
  const parsed = socketAddress.safeParse(set.DOCKER_HOST || `unix://${defaultSocket}`)
  return parsed.success ? null : (parsed.error.issues[0]?.message ?? null)
}

/** @returns null for a server without containers */
export const dockerConfig = (set: DockerSet): DockerConfig | null =>
  isWanted(set)
    ? {
        socket: socketAddress.parse(set.DOCKER_HOST || `unix://${defaultSocket}`),
        alone: set.FAIRLEAD_RUNTIME === 'docker' ? { base: set.FAIRLEAD_DOCKER_BASE ?? null } : null,
      }
    : null

const isWanted = ({ FAIRLEAD_RUNTIME: runtime, DOCKER_HOST: host }: DockerSet): boolean =>
  runtime === undefined ? (host ?? '') !== '' : runtime !== 'process'
