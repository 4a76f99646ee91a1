import { sql } from 'kysely'
import type { Transaction } from '../../platform/database.ts'
import { storableText } from './answer.ts'
import type { Next } from './schedule.ts'
import type { SendResult } from './send.ts'

/** An attempt that was made, and what follows from it. */
export interface AttemptRecord {
  readonly deliveryId: string
  readonly webhookId: string
  /** A redelivery meanwhile begins another round, whose schedule this attempt does not change. */
  readonly round: number
  readonly at: Date
  readonly durationMs: number
  readonly url: string
  readonly requestHeaders: Readonly<Record<string, string>>
  readonly result: SendResult
  readonly next: Next
}

/** True when the endpoint answered 410. */
export const isGone = ({ next }: AttemptRecord): boolean => next.status === 'failed' && next.gone

const maxErrorBytes = 1_000

/**
 * Writes attempts and the new state of their deliveries in one statement. A delivery that was deleted meanwhile is
 * skipped. Returns the ids of deliveries that were redelivered meanwhile, which are due already.
 */
export async function writeAttempts(
  transaction: Transaction,
  attempts: readonly AttemptRecord[],
): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ id: string }>`
    with made as (
      select * from jsonb_to_recordset(${JSON.stringify(attempts.map(rowOf))}::jsonb) as made (
        delivery_id text, round integer, at timestamptz, duration_ms integer, url text, request_headers jsonb,
        status integer, response_headers jsonb, response_body text, error text,
        failed boolean, next_status text, next_attempt_at timestamptz
      )
    ), recorded as (
      update deliveries set
        attempts = attempts + 1,
        last_status = made.status,
        last_error = made.error,
        failures = failures + case when deliveries.round = made.round and made.failed then 1 else 0 end,
        status = case when deliveries.round = made.round then made.next_status else deliveries.status end,
        next_attempt_at =
          case when deliveries.round = made.round then made.next_attempt_at else deliveries.next_attempt_at end,
        finished_at = case when deliveries.round = made.round and made.next_attempt_at is null then now() end
      from made where deliveries.id = made.delivery_id
      returning deliveries.id, deliveries.attempts as number, deliveries.round <> made.round as restarted
    ), logged as (
      insert into webhook_attempts (
        delivery_id, number, at, duration_ms, url, request_headers, status, response_headers, response_body, error
      )
      select recorded.id, recorded.number, at, duration_ms, url, request_headers, status, response_headers,
        response_body, error
      from recorded join made on made.delivery_id = recorded.id
    )
    select id from recorded where restarted
  `.execute(transaction)
  return new Set(rows.map(({ id }) => id))
}

function rowOf({ result, next, ...attempt }: AttemptRecord): Record<string, unknown> {
  return {
    delivery_id: attempt.deliveryId,
    round: attempt.round,
    at: attempt.at.toISOString(),
    duration_ms: Math.round(attempt.durationMs),
    url: attempt.url,
    request_headers: attempt.requestHeaders,
    status: result.answer?.status ?? null,
    response_headers: result.answer?.headers ?? null,
    response_body: result.answer?.body ?? null,
    error: result.error === null ? null : storableText(Buffer.from(result.error), maxErrorBytes),
    failed: !result.ok,
    next_status: next.status,
    next_attempt_at: next.status === 'pending' ? next.at.toISOString() : null,
  }
}
