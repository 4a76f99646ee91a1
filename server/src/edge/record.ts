import { stat } from 'node:fs/promises'
import { z } from 'zod'
import { readOptional } from '../platform/files.ts'
import {
  bootId,
  findProcesses,
  isRunning,
  killAll,
  type ProcessIdentity,
  startTimeOf,
  userOf,
} from '../platform/processes.ts'
import type { OsUser } from '../platform/users.ts'
import { type EdgeHome, edgeHome, writeWhole } from './home.ts'

const record = z.object({
  pid: z.int().positive(),
  /** The start time of the process, as in /proc. It identifies the process together with the pid. */
  startTime: z.string(),
  /** `startTime` counts from this boot of the system. */
  boot: z.string().nullable(),
  version: z.string(),
  configuration: z.string(),
  admin: z.string(),
})

/** The record that a server has written about a Caddy that it started. */
export type EdgeRecord = Readonly<z.output<typeof record>>

/** The variable that marks every Caddy of this data directory, in case a server ends before it can write the record. */
const marker = 'FAIRLEAD_EDGE'

export const markOf = ({ folder }: Pick<EdgeHome, 'folder'>): Readonly<Record<string, string>> => ({ [marker]: folder })

export interface FoundEdges {
  readonly current: EdgeRecord | null
  /** Other processes, left by a server that was killed while it started or replaced Caddy. */
  readonly others: readonly ProcessIdentity[]
}

/**
 * Finds the running Caddy processes.
 *
 * @param user the user of Caddy; `null` for the server's user. Processes of other users are not trusted
 */
export async function findRunning(home: EdgeHome, user: OsUser | null): Promise<FoundEdges> {
  const uid = user?.uid ?? process.getuid?.()
  const known = await readRecord(home)
  const current = known !== null && isRunning(known) && userOf(known.pid) === uid ? known : null
  const pids = await findProcesses({ name: marker, value: home.folder, uid })
  const others = pids.flatMap((pid) => {
    const startTime = pid === current?.pid ? null : startTimeOf(pid)
    return startTime === null ? [] : [{ pid, startTime }]
  })
  return { current, others }
}

export interface EdgeProcess extends ProcessIdentity {
  /** The version of Caddy; null when the server ended before it could write the record. */
  readonly version: string | null
  readonly isRunning: boolean
}

/**
 * Finds the Caddy processes of a data directory, also a recorded process that has ended, and under any user: the
 * folders of the edge tell who their user is.
 */
export async function edgeProcesses(dataDirectory: string): Promise<readonly EdgeProcess[]> {
  const home = edgeHome(dataDirectory)
  const uid = (await stat(home.caddy).catch(() => null))?.uid
  if (uid === undefined) return []
  const recorded = await readRecord(home)
  const { current, others } = await findRunning(home, { uid, gid: uid })
  return [
    ...(recorded === null ? [] : [{ ...recorded, isRunning: current !== null }]),
    ...others.map((other) => ({ ...other, version: null, isRunning: true })),
  ]
}

/** Gives the Caddy processes of a data directory `graceMs` to finish their requests. Returns the processes that ran. */
export async function endEdgeProcesses(
  dataDirectory: string,
  { graceMs }: { readonly graceMs: number },
): Promise<readonly EdgeProcess[]> {
  const running = (await edgeProcesses(dataDirectory)).filter((edge) => edge.isRunning)
  if (running.length > 0) await killAll({ leaders: running }, { graceMs })
  return running
}

/** Returns the record if it is from this boot of the system. Its process may have ended. */
export async function readRecord({ record: path }: Pick<EdgeHome, 'record'>): Promise<EdgeRecord | null> {
  try {
    const found = record.parse(JSON.parse((await readOptional(path)) ?? ''))
    return found.boot === bootId() ? found : null
  } catch {
    // The file is missing, or empty after a power failure.
    return null
  }
}

export async function writeRecord(home: Pick<EdgeHome, 'record'>, written: EdgeRecord): Promise<void> {
  await writeWhole(home.record, `${JSON.stringify(written)}\n`)
}
