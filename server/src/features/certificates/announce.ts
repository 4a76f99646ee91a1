import type { EventData } from '@fairlead/receiver'
import type { Announce } from '../../platform/announce.ts'
import type { Transaction } from '../../platform/database.ts'
import type { CertificateRow } from './tables.ts'

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
