import { z } from 'zod'
import { parseImageReference } from '../../contract/image-reference.ts'

/** The Docker engine that runs containers. */
export interface DockerConfig {
  /** The absolute path of its socket. */
  readonly socket: string
  /** Set where the programs of all apps run in containers, and none runs as a process. */
  readonly alone: {
    /** The image that generated ones are made of; null for the programs of this machine. */
    readonly base: string | null
  } | null
}

/** Docker's own, on every system. */
const defaultSocket = '/var/run/docker.sock'

const socketAddress = z.string().transform((value, context): string => {
  const path = /^unix:\/\/(\/.+)$/.exec(value)?.[1]
  if (path !== undefined) return path
  const reason = value.startsWith('tcp://')
    ? 'must be unix:// and the path of a socket: whoever reaches an engine over the network is root on its machine'
    : 'must be unix:// and the absolute path of a socket, such as unix:///var/run/docker.sock'
  context.addIssue({ code: 'custom', message: `${reason}. FAIRLEAD_RUNTIME=process leaves Docker alone` })
  return z.NEVER
})

export const dockerSettings = {
  /** Docker is never used because a socket exists: it has to be named here. */
  FAIRLEAD_RUNTIME: z
    .enum(['process', 'process,docker', 'docker'], {
      error: 'must be process, process,docker for containers besides, or docker for containers alone',
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

/** Returns what is wrong with the two settings together; null when nothing is. */
export function dockerProblem(set: DockerSet): string | null {
  if (!isWanted(set)) return null
  const parsed = socketAddress.safeParse(set.DOCKER_HOST || `unix://${defaultSocket}`)
  return parsed.success ? null : (parsed.error.issues[0]?.message ?? null)
}

/** @returns null for a server that runs no containers */
export const dockerConfig = (set: DockerSet): DockerConfig | null =>
  isWanted(set)
    ? {
        socket: socketAddress.parse(set.DOCKER_HOST || `unix://${defaultSocket}`),
        alone: set.FAIRLEAD_RUNTIME === 'docker' ? { base: set.FAIRLEAD_DOCKER_BASE ?? null } : null,
      }
    : null

const isWanted = ({ FAIRLEAD_RUNTIME: runtime, DOCKER_HOST: host }: DockerSet): boolean =>
  runtime === undefined ? (host ?? '') !== '' : runtime !== 'process'
