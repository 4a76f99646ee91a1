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
  /** The start time of the process, as in /proc; it identifies the process together with the pid. */
  startTime: z.string(),
  /** The boot of the system that `startTime` counts from. */
  boot: z.string().nullable(),
  version: z.string(),
  /** A fingerprint of its configuration. */
  configuration: z.string(),
  /** The path of the socket of its administration API. */
  admin: z.string(),
})

/** The record that a server has written about a Caddy that it started. */
export type EdgeRecord = Readonly<z.output<typeof record>>

/**
 * The variable that marks each Caddy of this data directory, in case its server ended before it could write the record.
 */
const marker = 'FAIRLEAD_EDGE'

/** Returns the variables that mark a process as the edge of this folder. */
export const markOf = ({ folder }: Pick<EdgeHome, 'folder'>): Readonly<Record<string, string>> => ({ [marker]: folder })

/** The running Caddy processes of a data directory. */
export interface FoundEdges {
  /** The process that serves, as far as is known. */
  readonly current: EdgeRecord | null
  /** Other processes, left by a server that was killed while it started or replaced one. */
  readonly others: readonly ProcessIdentity[]
}

/**
 * Finds the running Caddy processes.
 *
 * @param user the user that they run as; `null` for the server's user. Processes of other users are not trusted
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
  /** The version of Caddy; null when its server ended before it could write the record. */
  readonly version: string | null
  readonly isRunning: boolean
}

/**
 * Finds the Caddy processes of a data directory, also a recorded process that no longer runs, and under any user: the
 * folders of the edge tell who its user is.
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

/**
 * Ends the Caddy processes of a data directory, which finish their requests within `graceMs`. Returns the processes that
 * ran.
 */
export async function endEdgeProcesses(
  dataDirectory: string,
  { graceMs }: { readonly graceMs: number },
): Promise<readonly EdgeProcess[]> {
  const running = (await edgeProcesses(dataDirectory)).filter((edge) => edge.isRunning)
  if (running.length > 0) await killAll({ leaders: running }, { graceMs })
  return running
}

/** Returns the record of a process from this boot of the system; the process may have ended. */
export async function readRecord({ record: path }: Pick<EdgeHome, 'record'>): Promise<EdgeRecord | null> {
  try {
    const found = record.parse(JSON.parse((await readOptional(path)) ?? ''))
    return found.boot === bootId() ? found : null
  } catch {
    // The file is missing, or a power failure has left it empty.
    return null
  }
}

export async function writeRecord(home: Pick<EdgeHome, 'record'>, written: EdgeRecord): Promise<void> {
  await writeWhole(home.record, `${JSON.stringify(written)}\n`)
}
