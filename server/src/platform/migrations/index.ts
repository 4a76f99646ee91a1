import { foundation } from './0001-foundation.ts'
import { accounts } from './0002-accounts.ts'
import { deployments } from './0003-deployments.ts'
import { webhooks } from './0004-webhooks.ts'
import { idempotency } from './0005-idempotency.ts'
import { databases } from './0006-databases.ts'
import { storage } from './0007-storage.ts'
import { projects } from './0008-projects.ts'
import { traffic } from './0009-traffic.ts'
import { generations } from './0010-generations.ts'
import { databaseRestrictions } from './0011-database-restrictions.ts'
import { pendingFiles } from './0012-pending-files.ts'
import { servers } from './0013-servers.ts'
import { requestState } from './0014-request-state.ts'
import type { Migrations } from './schema.ts'

/**
 * All steps of the schema, applied in the order of their names. A released one is never edited. `oldestServer` of a step says
 * who can work on the schema after it (`schema.ts`).
 */
export const migrations: Migrations = {
  '0001-foundation': foundation,
  '0002-accounts': accounts,
  '0003-deployments': deployments,
  '0004-webhooks': webhooks,
  '0005-idempotency': idempotency,
  '0006-databases': databases,
  '0007-storage': storage,
  '0008-projects': projects,
  '0009-traffic': traffic,
  '0010-generations': generations,
  '0011-database-restrictions': databaseRestrictions,
  // Versions before this step refuse every schema that they do not know.
  '0012-pending-files': { ...pendingFiles, oldestServer: '0012-pending-files' },
  '0013-servers': servers,
  '0014-request-state': requestState,
}
