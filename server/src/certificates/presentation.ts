import type { ResponseBody } from '../contract/operations.ts'
import type { CertificateStatus } from '../contract/resources/hosts/certificates.ts'
import type { ShownRow } from './rows.ts'

/** Returns the state of a certificate at a time: most of it follows from its times alone. */
export function statusOf(row: Pick<ShownRow, 'revoked_at' | 'expires_at' | 'attempts'>, now: Date): CertificateStatus {
  if (row.revoked_at !== null) return 'revoked'
  if (row.expires_at === null) return 'pending'
  if (row.expires_at <= now) return 'expired'
  return row.attempts > 0 ? 'failing' : 'valid'
}

/** Shows a certificate as the API does. */
export function certificateView(row: ShownRow, now: Date): ResponseBody<'certificates.get'> {
  const time = (date: Date | null) => date?.toISOString() ?? null
  return {
    id: row.id,
    names: [...row.names],
    source: row.source,
    status: statusOf(row, now),
    project_id: row.project_id,
    app_id: row.app_id,
    domain_id: row.domain_id,
    issuer: row.issuer,
    serial: row.serial,
    not_before: time(row.not_before),
    expires_at: time(row.expires_at),
    attempted_at: time(row.attempted_at),
    under_way: row.is_under_way,
    next_attempt_at: time(row.next_attempt_at),
    attempts: row.attempts,
    failure: row.failure,
    revocation_requested_at: time(row.revocation_requested_at),
    created_at: row.created_at.toISOString(),
  }
}
