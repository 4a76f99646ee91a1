import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { gatewayHome } from '../gateway/supervision/place.ts'
import { readOptional } from '../platform/files.ts'
import { bootId, isRunning, killAll, unlessShort, userOf } from '../platform/processes.ts'
import type { DataDirectory } from '../platform/startup/data-directory.ts'

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

/** Reads the records of the gateways. While one is replaced by a newer version there are two. */
export async function findGateways({ root }: Pick<DataDirectory, 'root'>): Promise<readonly GatewayRecord[]> {
  const { folder } = gatewayHome(root)
  const owner = (await stat(folder).catch(() => null))?.uid
  const names = (await readdir(folder).catch(unlessShort([]))).filter((name) => name.endsWith('.json'))
  const found = await Promise.all(
    names.map((name) => readOptional(join(folder, name)).then((text) => parseRecord(text, owner))),
  )
  return found.filter((each) => each !== null)
}

/** @param owner of the folder, who writes the record: one that names another user's process is not believed */
function parseRecord(text: string | undefined, owner: number | undefined): GatewayRecord | null {
  try {
    const parsed = record.parse(JSON.parse(text ?? ''))
    const isOwn = userOf(parsed.pid) === owner
    const isOfThisBoot = !parsed.boot || parsed.boot === bootId()
    return { ...parsed, isRunning: isOfThisBoot && isOwn && isRunning(parsed) }
  } catch {
    // Another file, or a record that is being written.
    return null
  }
}

/** Ends the gateways, which finish their requests within `graceMs`. Returns those that ran. */
export async function endGateways(
  directory: Pick<DataDirectory, 'root'>,
  { graceMs }: { readonly graceMs: number },
): Promise<readonly GatewayRecord[]> {
  const running = (await findGateways(directory)).filter((gateway) => gateway.isRunning)
  if (running.length > 0) await killAll({ leaders: running }, { graceMs })
  return running
}
