import type { EventData } from '@fairlead/receiver'
import type { Transaction } from '../platform/database.ts'
import type { CertificateRow } from './tables.ts'

/** A change of a certificate that is reported to its account. */
export type CertificateEvent =
  | { readonly event: 'certificate.renewed'; readonly data: EventData<'certificate.renewed'> }
  | { readonly event: 'certificate.failed'; readonly data: EventData<'certificate.failed'> }

/** Records an event in the same transaction as its cause, so that both are committed or neither is. */
export type Announce = (
  transaction: Transaction,
  event: CertificateEvent & { readonly accountId: string; readonly projectId: string | null },
) => Promise<void>

type Row = Pick<CertificateRow, 'id' | 'account_id' | 'project_id' | 'app_id' | 'names'>

const ownerOf = (row: Row) => ({ accountId: row.account_id, projectId: row.project_id })
const dataOf = (row: Row) => ({
  certificate_id: row.id,
  names: row.names,
  project_id: row.project_id,
  app_id: row.app_id,
})

export const announceRenewed = (
  announce: Announce,
  transaction: Transaction,
  row: Row,
  expiresAt: Date,
): Promise<void> =>
  announce(transaction, {
    ...ownerOf(row),
    event: 'certificate.renewed',
    data: { ...dataOf(row), expires_at: expiresAt.toISOString() },
  })

export const announceFailed = (
  announce: Announce,
  transaction: Transaction,
  row: Row,
  facts: Pick<EventData<'certificate.failed'>, 'attempts' | 'failure'> & { readonly expiresAt: Date | null },
): Promise<void> =>
  announce(transaction, {
    ...ownerOf(row),
    event: 'certificate.failed',
    data: {
      ...dataOf(row),
      expires_at: facts.expiresAt?.toISOString() ?? null,
      attempts: facts.attempts,
      failure: facts.failure,
    },
  })
