import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { gatewayHome } from '../gateway/place.ts'
import { type GatewayRecord, readGatewayRecord } from '../gateway/record.ts'
import type { DataDirectory } from '../platform/data-directory.ts'
import { killAll, unlessShort } from '../platform/processes.ts'

/** Reads the records of the gateways. There are two while a newer version replaces a gateway. */
export async function findGateways({ root }: Pick<DataDirectory, 'root'>): Promise<readonly GatewayRecord[]> {
  const { folder } = gatewayHome(root)
  const owner = (await stat(folder).catch(() => null))?.uid
  const names = (await readdir(folder).catch(unlessShort([]))).filter((name) => name.endsWith('.json'))
  const found = await Promise.all(names.map((name) => readGatewayRecord(join(folder, name), owner)))
  return found.filter((each) => each !== null)
}

/** Ends the gateways, which finish their requests within `graceMs`. Returns the gateways that ran. */
export async function endGateways(
  directory: Pick<DataDirectory, 'root'>,
  { graceMs }: { readonly graceMs: number },
): Promise<readonly GatewayRecord[]> {
  const running = (await findGateways(directory)).filter((gateway) => gateway.isRunning)
  if (running.length > 0) await killAll({ leaders: running }, { graceMs })
  return running
}
