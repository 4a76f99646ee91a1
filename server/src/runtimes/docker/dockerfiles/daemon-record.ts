import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { foldersIn } from '../../../platform/disk/folders.ts'
import { bootId, isRunning, type ProcessIdentity } from '../../../platform/processes.ts'

/*
 * The folders of build daemons in the data directory, one for each app that has built a Dockerfile. All that an app's builds
 * keep is in its own: no build reads what another app's has left.
 */

export interface DaemonHome {
  readonly folder: string
  /** The daemon's own data: images, layers and the cache. */
  readonly data: string
  readonly sockets: string
  /** A file that is there while a build uses the data, and after one that did not come to its end. */
  readonly inUse: string
}

/** @param builds the folder of all daemons */
export function homeOf(builds: string, appId: string): DaemonHome {
  const folder = join(builds, appId)
  return { folder, data: join(folder, 'data'), sockets: join(folder, 'run'), inUse: join(folder, 'in-use') }
}

/** Lists the folders of all daemons, running or not. */
export async function listHomes(builds: string): Promise<string[]> {
  return (await foldersIn(builds)).map((name) => join(builds, name))
}

const record = z.object({
  pid: z.int().positive(),
  /** Of the process, as in /proc; together with the pid it identifies the process. */
  startTime: z.string(),
  /** The start of the system that `startTime` counts from. */
  boot: z.string().nullable(),
  deploymentId: z.string(),
})

/** A build daemon that runs. */
export interface RunningDaemon extends ProcessIdentity {
  readonly appId: string
  readonly deploymentId: string
}

const fileOf = (home: DaemonHome): string => join(home.folder, 'daemon.json')

/** Records the daemon that builds a release. */
export async function writeRecord(home: DaemonHome, { pid, startTime }: ProcessIdentity, id: string): Promise<void> {
  const text = JSON.stringify({ pid, startTime, boot: bootId(), deploymentId: id } satisfies z.output<typeof record>)
  await writeFile(fileOf(home), text, { mode: 0o600 })
}

export const removeRecord = (home: DaemonHome): Promise<void> => rm(fileOf(home), { force: true })

/** Finds the daemons that run, with a server or without one. */
export async function findRunningDaemons(builds: string): Promise<readonly RunningDaemon[]> {
  const found = await Promise.all(
    (await foldersIn(builds)).map(async (appId) => {
      const text = await readFile(fileOf(homeOf(builds, appId)), 'utf8').catch(() => '')
      return parse(text, appId)
    }),
  )
  return found.flat()
}

function parse(text: string, appId: string): RunningDaemon[] {
  try {
    const { pid, startTime, boot, deploymentId } = record.parse(JSON.parse(text))
    return boot === bootId() && isRunning({ pid, startTime }) ? [{ pid, startTime, appId, deploymentId }] : []
  } catch {
    // There is none, or it was being written when the machine went down.
    return []
  }
}
