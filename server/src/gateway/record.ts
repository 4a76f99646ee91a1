import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { z } from 'zod'
import { bootId, isRunning, killGroup, type ProcessIdentity, unlessShort, userOf } from '../platform/processes.ts'

const record = z.object({
  pid: z.int().positive(),
  /** The start time of the process, as in /proc; it identifies the process together with the pid. */
  startTime: z.string(),
  /** The boot of the system that `startTime` counts from; null where the system has none. */
  boot: z.string().nullable(),
  version: z.string(),
})

/** The record that a gateway has written about itself in the folder `gateway` of the data directory. */
export interface GatewayRecord extends Readonly<z.output<typeof record>> {
  readonly isRunning: boolean
}

const mostBytes = 4096

/**
 * Reads the record of a gateway; null when there is none.
 *
 * @param owner the owner of the folder, who writes the record. A record that names another user's process is not
 * trusted
 */
export async function readGatewayRecord(path: string, owner: number | undefined): Promise<GatewayRecord | null> {
  try {
    const parsed = record.parse(JSON.parse(await readStart(path)))
    const isOwn = userOf(parsed.pid) === owner
    return { ...parsed, isRunning: parsed.boot === bootId() && isOwn && isRunning(parsed) }
  } catch (error) {
    // The file is missing, is another file, or is being written.
    return unlessShort(null)(error)
  }
}

/** The folder may belong to a user with fewer rights, who could place anything there. */
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
 * Kills a gateway that does not answer, with its workers, which may hang as well. Kills only processes of the gateway's
 * user, because that user wrote the pid.
 */
export function killGateway(gateway: ProcessIdentity, uid: number | undefined): void {
  if (isRunning(gateway) && userOf(gateway.pid) === uid) killGroup(gateway.pid)
}
