import { stat } from 'node:fs/promises'
import { z } from 'zod'
import { readOptional } from '../platform/files.ts'
import { bootId, findProcesses, isRunning, type ProcessIdentity, startTimeOf, userOf } from '../platform/processes.ts'
import type { OsUser } from '../platform/users.ts'
import { type EdgeHome, edgeHome, writeWhole } from './home.ts'

const record = z.object({
  pid: z.int().positive(),
  /** Of the process, as in /proc; together with the pid it identifies the process. */
  startTime: z.string(),
  /** The start of the system that `startTime` counts from. */
  boot: z.string().nullable(),
  /** The version of Caddy. */
  version: z.string(),
  /** A fingerprint of the configuration that it has. */
  configuration: z.string(),
  /** The path of its socket for the operator. */
  admin: z.string(),
})

/** A Caddy that a server has started, as that server has written it down. */
export type EdgeRecord = Readonly<z.output<typeof record>>

/** The variable in the environment of each Caddy of this data directory, for one whose server ended before it could record it. */
const marker = 'FAIRLEAD_EDGE'

/** Returns the environment that marks a process as the edge of this folder. */
export const markOf = ({ folder }: Pick<EdgeHome, 'folder'>): Readonly<Record<string, string>> => ({ [marker]: folder })

/** The Caddys of a data directory that run. */
export interface FoundEdges {
  /** The one that serves, as far as is known. */
  readonly current: EdgeRecord | null
  /** Others, left by a server that was killed while it started or replaced one. */
  readonly others: readonly ProcessIdentity[]
}

/**
 * Finds the Caddys that run.
 *
 * @param user the user that they run as; `null` for that of the server. Processes of others are not believed
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

/** A Caddy of a data directory. */
export interface EdgeProcess extends ProcessIdentity {
  /** The version of Caddy; null for one whose server ended before it could record it. */
  readonly version: string | null
  readonly isRunning: boolean
}

/** Finds the Caddys of a data directory, whoever runs them: the folders of the edge say who its user is. */
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

/** Returns what is recorded of a process of this start of the system; it may have ended. */
export async function readRecord({ record: path }: Pick<EdgeHome, 'record'>): Promise<EdgeRecord | null> {
  try {
    const found = record.parse(JSON.parse((await readOptional(path)) ?? ''))
    return found.boot === bootId() ? found : null
  } catch {
    // There is none, or a power failure has left it without its content.
    return null
  }
}

export async function writeRecord(home: Pick<EdgeHome, 'record'>, written: EdgeRecord): Promise<void> {
  await writeWhole(home.record, `${JSON.stringify(written)}\n`)
}
