import type { Acme } from '../acme/acme.ts'
import { explain } from '../acme/explain.ts'
import { checkIssued } from '../acme/issued.ts'
import { certificateBlocks } from '../pem/blocks.ts'
import { newKey } from '../pem/key.ts'
import { type CertificateRow, orderKeyContext, tablesOf } from '../tables.ts'
import { endPause, noteOrder } from './history.ts'
import { fail, type OutcomeDependencies, succeed } from './outcome.ts'

export interface AttemptDependencies extends OutcomeDependencies {
  readonly acme: Pick<Acme, 'order' | 'revoke'>
}

/**
 * Obtains or renews a certificate, always with a new key, or resumes the order of an earlier attempt. When the signal aborts,
 * everything stays as it is for the next leader.
 */
export async function obtain(
  dependencies: AttemptDependencies,
  row: CertificateRow,
  isRenewal: boolean,
  signal: AbortSignal,
): Promise<void> {
  const { database, acme } = dependencies
  const { names } = row
  await concluded(dependencies, row, signal, async () => {
    const unfinished = orderOf(dependencies, row)
    const key = unfinished?.key ?? (await newKey())
    const onOrder = async (url: string) => {
      await noteOrder(database, { ...row, isRenewal })
      await storeOrder(dependencies, row, { url, key })
    }
    const chain = await acme.order({ names, key, url: unfinished?.url ?? null, onOrder, signal })
    await endPause(database)
    await succeed(dependencies, row.id, { ...checkIssued(chain, { names, key }, new Date()), key })
  })
}

/** Revokes a certificate at its authority, and forgets its key. */
export async function revoke(
  dependencies: AttemptDependencies,
  row: CertificateRow,
  signal: AbortSignal,
): Promise<void> {
  const { database, acme, logger } = dependencies
  await concluded(dependencies, row, signal, async () => {
    const [certificate] = certificateBlocks(row.chain ?? '')
    const isOver = row.expires_at !== null && row.expires_at <= new Date()
    if (certificate !== undefined && !isOver) await acme.revoke(certificate, signal)
    const done = { revoked_at: new Date(), private_key: null, next_attempt_at: null, is_under_way: false }
    const rest = { order_url: null, order_key: null, attempts: 0, failure: null, alerted_at: null }
    await tablesOf(database)
      .updateTable('certificates')
      .set({ ...done, ...rest })
      .where('id', '=', row.id)
      .execute()
    logger.info({ certificate: row.id, names: row.names, account: row.account_id }, 'a certificate was revoked')
  })
}

/** Runs an attempt, and notes why it has failed. Rejects when not even that is possible. */
async function concluded(
  dependencies: AttemptDependencies,
  { id }: CertificateRow,
  signal: AbortSignal,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!signal.aborted) await fail(dependencies, id, explain(error))
  }
}

interface Order {
  readonly url: string
  readonly key: string
}

function orderOf({ secrets }: AttemptDependencies, row: CertificateRow): Order | undefined {
  const { id, order_url: url, order_key: sealed } = row
  return url === null || sealed === null ? undefined : { url, key: secrets.decrypt(sealed, orderKeyContext(id)) }
}

/** Stores an order before anything is done about it, so that it is not made again when the server is killed. */
async function storeOrder(
  { database, secrets }: AttemptDependencies,
  { id }: CertificateRow,
  order: Order,
): Promise<void> {
  await tablesOf(database)
    .updateTable('certificates')
    .set({ order_url: order.url, order_key: secrets.encrypt(order.key, orderKeyContext(id)) })
    .where('id', '=', id)
    .execute()
}
