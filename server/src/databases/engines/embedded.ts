import { join } from 'node:path'
import type { Range } from '../../platform/config.ts'
import { readOptional } from '../../platform/files.ts'
import { clusterPort } from './cluster-port.ts'
import { type ClustersOptions, createClusters, dataDirectory } from './clusters.ts'
import type { Engine } from './engine.ts'
import { endLockHolders } from './lock-limit.ts'

export interface EmbeddedEngineOptions extends ClustersOptions {
  /** The host in connection strings, with which apps reach this machine. */
  readonly host: string
  readonly ports: Range
}

/**
 * Runs PostgreSQL clusters on this machine, one for each version, separate from the cluster with Fairlead's state. They
 * start when first needed and are supervised. They may outlive the server; the next server adopts them.
 */
export function createEmbeddedEngine(options: EmbeddedEngineOptions): Engine {
  const { binaries, certificates, directory, host, ports } = options
  const clusters = createClusters(options)
  return {
    name: 'embedded',
    versions: async () => binaries.majors,
    addressOf: async (transaction, version) => ({ host, port: await clusterPort(transaction, version, ports) }),
    open: clusters.open,
    instances: clusters.all,
    exists: async (version) =>
      (await readOptional(join(dataDirectory(directory, version), 'PG_VERSION'))) !== undefined,

    async limitLocks(maxLocks) {
      const databases: number[] = []
      for (const instance of clusters.all().values()) {
        if (instance !== null) databases.push(...(await endLockHolders(instance.statistics, maxLocks)))
      }
      return databases
    },

    limitLogins: clusters.limitLogins,
    authority: certificates.authority,
    renewCertificate: clusters.renewCertificate,
    close: clusters.close,
  }
}
