import { constants } from 'node:fs'
import { open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import {
  bootId,
  isRunning,
  killAll,
  killGroup,
  type ProcessIdentity,
  unlessShort,
  userOf,
} from '../platform/processes.ts'
import { gatewayHome } from './place.ts'

const record = z.object({
  pid: z.int().positive(),
  /** The start time of the process, as in /proc. It identifies the process together with the pid. */
  startTime: z.string(),
  /** `startTime` counts from this boot; null where the system has none. */
  boot: z.string().nullable(),
  version: z.string(),
})

/** A gateway writes it about itself, in the folder `gateway` of the data directory. */
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
    // The file is missing, foreign, or being written.
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

/** Reads the records of the gateways of a data directory. There are two while a newer version replaces a gateway. */
export async function findGateways({ root }: { readonly root: string }): Promise<readonly GatewayRecord[]> {
  const { folder } = gatewayHome(root)
  const owner = (await stat(folder).catch(() => null))?.uid
  const names = (await readdir(folder).catch(unlessShort([]))).filter((name) => name.endsWith('.json'))
  const found = await Promise.all(names.map((name) => readGatewayRecord(join(folder, name), owner)))
  return found.filter((each) => each !== null)
}

/** Ends the gateways, which finish their requests within `graceMs`. Returns the gateways that ran. */
export async function endGateways(
  directory: { readonly root: string },
  { graceMs }: { readonly graceMs: number },
): Promise<readonly GatewayRecord[]> {
  const running = (await findGateways(directory)).filter((gateway) => gateway.isRunning)
  if (running.length > 0) await killAll({ leaders: running }, { graceMs })
  return running
}
