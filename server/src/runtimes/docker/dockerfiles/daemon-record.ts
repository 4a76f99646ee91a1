import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { foldersIn } from '../../../platform/disk/folders.ts'
import { bootId, isRunning, type ProcessIdentity } from '../../../platform/processes.ts'

/*
 * Each app with a built Dockerfile has a folder with everything that its builds keep, so no build reads data of another
 * app.
 */

export interface DaemonHome {
  readonly folder: string
  readonly data: string
  readonly sockets: string
  /** A file that exists while a build uses the data. It remains after an interrupted build. */
  readonly inUse: string
}

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
  /** The start time of the process in /proc. Together with the pid it identifies the process. */
  startTime: z.string(),
  /** The id of the boot that `startTime` counts from. */
  boot: z.string().nullable(),
  deploymentId: z.string(),
})

export interface RunningDaemon extends ProcessIdentity {
  readonly appId: string
  readonly deploymentId: string
}

const fileOf = (home: DaemonHome): string => join(home.folder, 'daemon.json')

export async function writeRecord(home: DaemonHome, { pid, startTime }: ProcessIdentity, id: string): Promise<void> {
  const text = JSON.stringify({ pid, startTime, boot: bootId(), deploymentId: id } satisfies z.output<typeof record>)
  await writeFile(fileOf(home), text, { mode: 0o600 })
}

export const removeRecord = (home: DaemonHome): Promise<void> => rm(fileOf(home), { force: true })

/** Finds running daemons, with or without a running server. */
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
    // The record is missing, or incomplete because the machine stopped during the write.
    return []
  }
}
