import { certificateHandlers } from '../../certificates/certificates.ts'
import { createCertificateHealth } from '../../certificates/status.ts'
import type { HandlersOf } from '../../http/call.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { Tenancy } from '../../projects/tenancy.ts'
import type { RequestComposition } from '../composition.ts'

const healthEveryMs = 30_000

export function composeCertificates(composition: RequestComposition, tenancy: Tenancy): HandlersOf<'certificates'> {
  const { config, state, secrets } = composition
  if (config.edge !== null) followHealth(composition)
  return certificateHandlers({
    database: state.db,
    secrets,
    ownsProject: async (transaction, { accountId }, id) =>
      (await tenancy.find(accountId, id, transaction)) !== undefined && (await tenancy.hold(transaction, id)),
  })
}

/** Reports certificates that are at risk in `/readyz` and metrics. */
function followHealth({ state, application, metrics, logger, stack }: RequestComposition): void {
  const health = createCertificateHealth(state.db, logger, new Date())
  application.addProblems(health.problems)
  metrics?.gauge({
    name: 'fairlead_certificate_days_left',
    help: 'Days until the first certificate expires, by source: automatic or uploaded.',
    label: 'source',
    read: async () => health.daysLeft(),
  })
  metrics?.gauge({
    name: 'fairlead_certificates_overdue',
    help: 'Certificates that are due for over an hour, and that the server has not tried to obtain, renew or revoke.',
    label: 'source',
    read: async () => ({ automatic: health.overdue() }),
  })
  const check = startPeriodic({ name: 'looking at certificates', everyMs: healthEveryMs, work: health.check, logger })
  stack.defer('the health of certificates', () => check.stop())
}
