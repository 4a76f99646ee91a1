import type { PublicAddress } from '../gateway/client.ts'
import type { AppsConfig } from '../platform/config.ts'
import type { Transaction } from '../platform/database.ts'
import { candidates } from './addresses.ts'
import { tablesOf } from './tables.ts'

export interface FreeAddresses {
  readonly config: AppsConfig
  /** False when another program listens on this port. */
  readonly isPortFree: (port: number) => Promise<boolean>
}

/** Yields the addresses that an app may get, one after the other. Another app may have a host name among them. */
export async function* freeAddresses(
  { config, isPortFree }: FreeAddresses,
  transaction: Transaction,
  { projectId, name }: { readonly projectId: string; readonly name: string },
): AsyncGenerator<PublicAddress> {
  const taken = await takenPorts(transaction)
  for (const address of candidates(config, projectId, name)) {
    if ('port' in address && (taken.has(address.port) || !(await isPortFree(address.port)))) continue
    yield address
  }
}

/** The ports of all apps. They are not probed: the gateway may listen there. */
async function takenPorts(transaction: Transaction): Promise<ReadonlySet<number>> {
  const rows = await tablesOf(transaction).selectFrom('apps').select('port').where('port', 'is not', null).execute()
  return new Set(rows.flatMap(({ port }) => (port === null ? [] : [port])))
}
