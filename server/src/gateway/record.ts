import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { z } from 'zod'
import { bootId, isRunning, killGroup, type ProcessIdentity, unlessShort, userOf } from '../platform/processes.ts'

const record = z.object({
  pid: z.int().positive(),
  /** Of the process, as in /proc; together with the pid it identifies the process. */
  startTime: z.string(),
  /** The start of the system that `startTime` counts from; missing in records of older versions. */
  boot: z.string().nullish(),
  version: z.string(),
})

/** A gateway, as it has recorded itself in the folder `gateway` of the data directory. */
export interface GatewayRecord extends Readonly<z.output<typeof record>> {
  readonly isRunning: boolean
}

/** Far more than a record has. */
const mostBytes = 4096

/**
 * Reads the record of a gateway; null when there is none.
 *
 * @param owner of the folder, who writes the record: one that names another user's process is not believed
 */
export async function readGatewayRecord(path: string, owner: number | undefined): Promise<GatewayRecord | null> {
  try {
    const parsed = record.parse(JSON.parse(await readStart(path)))
    const isOwn = userOf(parsed.pid) === owner
    const isOfThisBoot = !parsed.boot || parsed.boot === bootId()
    return { ...parsed, isRunning: isOfThisBoot && isOwn && isRunning(parsed) }
  } catch (error) {
    // There is none, or it is another file, or is being written.
    return unlessShort(null)(error)
  }
}

/** The folder may be that of a user with less rights, who could put anything there. */
async function readStart(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(mostBytes), 0, mostBytes, 0)
    return buffer.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

/**
 * Ends a gateway that does not answer, with its workers, which may hang as well. Nothing else than processes of its user are
 * ended: the pid is what that user says.
 */
export function killGateway(gateway: ProcessIdentity, uid: number | undefined): void {
  if (isRunning(gateway) && userOf(gateway.pid) === uid) killGroup(gateway.pid)
}
