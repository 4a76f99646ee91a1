import type { Migrations } from './schema.ts'
import { foundation } from './steps/0001-0019/0001-foundation.ts'
import { accounts } from './steps/0001-0019/0002-accounts.ts'
import { deployments } from './steps/0001-0019/0003-deployments.ts'
import { webhooks } from './steps/0001-0019/0004-webhooks.ts'
import { idempotency } from './steps/0001-0019/0005-idempotency.ts'
import { databases } from './steps/0001-0019/0006-databases.ts'
import { storage } from './steps/0001-0019/0007-storage.ts'
import { projects } from './steps/0001-0019/0008-projects.ts'
import { traffic } from './steps/0001-0019/0009-traffic.ts'
import { generations } from './steps/0001-0019/0010-generations.ts'
import { databaseRestrictions } from './steps/0001-0019/0011-database-restrictions.ts'
import { pendingFiles } from './steps/0001-0019/0012-pending-files.ts'
import { servers } from './steps/0001-0019/0013-servers.ts'
import { requestState } from './steps/0001-0019/0014-request-state.ts'
import { sessionSecrets } from './steps/0001-0019/0015-session-secrets.ts'
import { sources } from './steps/0001-0019/0016-sources.ts'
import { rootsAndQueue } from './steps/0001-0019/0017-roots-and-queue.ts'
import { trust } from './steps/0001-0019/0018-trust.ts'
import { deviceLogins } from './steps/0001-0019/0019-device-logins.ts'
import { appVariables } from './steps/0020-0039/0020-app-variables.ts'
import { databaseLinks } from './steps/0020-0039/0021-database-links.ts'
import { steps } from './steps/0020-0039/0022-steps.ts'
import { promotions } from './steps/0020-0039/0023-promotions.ts'
import { runs } from './steps/0020-0039/0024-runs.ts'
import { schedules } from './steps/0020-0039/0025-schedules.ts'
import { processes } from './steps/0020-0039/0026-processes.ts'
import { permissions } from './steps/0020-0039/0027-permissions.ts'
import { gitCredentials } from './steps/0020-0039/0028-git-credentials.ts'
import { metrics } from './steps/0020-0039/0029-metrics.ts'
import { images } from './steps/0020-0039/0030-images.ts'
import { volumes } from './steps/0020-0039/0031-volumes.ts'
import { domains } from './steps/0020-0039/0032-domains.ts'
import { certificates } from './steps/0020-0039/0033-certificates.ts'
import { domainContests } from './steps/0020-0039/0034-domain-contests.ts'
import { engineNames } from './steps/0020-0039/0035-engine-names.ts'
import { superseded } from './steps/0020-0039/0036-superseded.ts'
import { databaseLogins } from './steps/0020-0039/0037-database-logins.ts'

/**
 * All steps of the schema, applied in the order of their names. A released step is never edited. `oldestServer` names
 * the oldest servers that work on the schema after a step (`schema.ts`).
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
  '0015-session-secrets': sessionSecrets,
  '0016-sources': sources,
  '0017-roots-and-queue': rootsAndQueue,
  // This step widens a check, so servers that worked before still work.
  '0018-trust': { ...trust, oldestServer: '0012-pending-files' },
  '0019-device-logins': deviceLogins,
  '0020-app-variables': appVariables,
  '0021-database-links': databaseLinks,
  '0022-steps': steps,
  '0023-promotions': promotions,
  '0024-runs': runs,
  '0025-schedules': schedules,
  '0026-processes': processes,
  '0027-permissions': permissions,
  '0028-git-credentials': gitCredentials,
  '0029-metrics': metrics,
  '0030-images': images,
  '0031-volumes': volumes,
  '0032-domains': domains,
  '0033-certificates': certificates,
  '0034-domain-contests': domainContests,
  // Older servers would create databases under their ids, which no connection string has any more.
  '0035-engine-names': { ...engineNames, oldestServer: '0035-engine-names' },
  '0036-superseded': superseded,
  // Older servers would give the owner's role the password of the second role.
  '0037-database-logins': { ...databaseLogins, oldestServer: '0037-database-logins' },
}
