import type { EdgeGateway } from '../../gateway/edge-client.ts'
import { automaticCertificates, insertAutomatic } from '../rows.ts'
import { hasWildcard } from '../serving/obtainable.ts'
import type { ServedName } from '../serving/selection.ts'
import { startCertificateSync } from '../serving/sync.ts'
import { keyContext, tablesOf } from '../tables.ts'
import { createLook, type LookDependencies, obtainableNames, wildcardState } from './look.ts'
import { startWorker, type WorkerDependencies } from './worker.ts'

export interface CertificateWorkDependencies
  extends LookDependencies,
    Omit<WorkerDependencies, 'servedNames' | 'isShown' | 'operatorId'> {
  readonly gateway: Pick<EdgeGateway, 'certify' | 'certificates'>
}

/** The work of the leader on certificates. */
export interface CertificateWork {
  /** Asks for the certificate of a name that somebody visits, unless there is one or it is asked for already. */
  obtain(name: ServedName): Promise<void>
  /** Looks at once for changes of certificates and of names. */
  wake(): void
  stop(): Promise<void>
}

/** Begins to show, obtain and renew certificates. Resolves when the gateway has those that are there, or could not be told. */
export async function startCertificateWork(dependencies: CertificateWorkDependencies): Promise<CertificateWork> {
  const { database, secrets, gateway, own, logger } = dependencies
  const sync = await startCertificateSync({
    look: createLook(dependencies),
    async read(id) {
      const row = await tablesOf(database)
        .selectFrom('certificates')
        .select(['chain', 'private_key'])
        .where('id', '=', id)
        .executeTakeFirst()
      if (row?.chain == null || row.private_key === null) return undefined
      return secrets.decrypt(row.private_key, keyContext(id)) + row.chain
    },
    certify: gateway.certify,
    before: gateway.certificates(),
    logger,
  })
  const worker = startWorker({
    ...dependencies,
    servedNames: (appIds) => obtainableNames(dependencies, appIds),
    isShown: sync.isShown,
  })
  return {
    async obtain(name) {
      const wildcard = wildcardState(await automaticCertificates(database), own, new Date())
      if (name.domainId !== null || !hasWildcard(name.name, own, wildcard)) await insertAutomatic(database, name)
    },
    wake() {
      sync.wake()
      worker.wake()
    },
    async stop() {
      await worker.stop()
      await sync.stop()
    },
  }
}
