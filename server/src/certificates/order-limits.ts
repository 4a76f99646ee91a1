import { ApiError } from '../contract/errors.ts'
import { type AttemptLimit, takeWithin } from '../platform/attempts.ts'
import type { Transaction } from '../platform/database.ts'
import type { ShownRow } from './rows.ts'

const hourMs = 60 * 60_000

const renewals: AttemptLimit = { name: 'certificates.renew', most: 5, windowMs: hourMs }
/** Let's Encrypt issues five certificates for the same names in a week. The first one, or a renewal in time, is left to the server. */
const orders: AttemptLimit = { name: 'certificates.order', most: 4, windowMs: 7 * 24 * hourMs }

type Asked = Pick<ShownRow, 'account_id' | 'names' | 'failure' | 'next_attempt_at'>

/*
 * These limit how often an account asks for certificates by hand: of the same names, because each row may have another one beside it. What a
 * transaction has counted is gone when it is rolled back.
 */

/** Throws when a certificate was renewed too often. A renewal that fails, or is due in any case, costs no certificate more. */
export async function assertMayRenew(transaction: Transaction, row: Asked): Promise<void> {
  const retryAfter = await takeWithin(transaction, renewals, keyOf(row))
  if (retryAfter !== undefined) throw tooManyRenewals(retryAfter)
  if (isAtRest(row, new Date())) await assertMayReplace(transaction, row)
}

/** Throws when there were too many certificates for another one, which takes the place of this one. */
export async function assertMayReplace(transaction: Transaction, row: Asked): Promise<void> {
  const retryAfter = await takeWithin(transaction, orders, keyOf(row))
  if (retryAfter !== undefined) throw tooManyOrders(retryAfter)
}

const keyOf = ({ account_id, names }: Asked): string => [account_id, ...names].join(' ')

const isAtRest = ({ failure, next_attempt_at: next }: Asked, now: Date): boolean =>
  failure === null && next !== null && next > now

function tooManyRenewals(retryAfter: number): ApiError {
  const message = `The certificate was renewed by hand ${renewals.most} times within an hour. Try again in ${retryAfter} seconds.`
  return new ApiError('invalid_request', message, { most: renewals.most, retry_after: retryAfter })
}

function tooManyOrders(retryAfter: number): ApiError {
  const message =
    `Certificates for these names were renewed or revoked by hand ${orders.most} times within a week, and authorities issue few ` +
    `for the same names. Try again in ${Math.ceil((retryAfter * 1000) / hourMs)} hours.`
  return new ApiError('invalid_request', message, { most: orders.most, retry_after: retryAfter })
}
