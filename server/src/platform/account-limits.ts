import { ApiError } from '../contract/errors.ts'
import { takeWithin } from './attempts.ts'
import { type Database, lockByName, shareByName, type Transaction } from './database.ts'
import { type AccountLimits, accountLimits, type Plans, type Tier } from './plans.ts'

export type Counted = 'projects' | 'apps' | 'building' | 'api_keys' | 'runs' | 'schedules' | 'domains'
export type Hourly = 'deployments_per_hour' | 'webhook_tests_per_hour'

/** The limits of whole accounts, by their tiers. All servers share these limits. */
export interface Totals {
  of(on: Database | Transaction, accountId: string): Promise<AccountLimits>
  /**
   * Resolves to false when the account has reached its limit. `count` returns the current number, before the caller
   * adds one. Near the limit, it counts under a lock until the transaction ends, so that two transactions cannot both
   * take the last place.
   */
  hasRoom(transaction: Transaction, accountId: string, what: Counted, count: () => Promise<number>): Promise<boolean>
  /** Throws `invalid_request` when `hasRoom` resolves to false. */
  assertRoom(transaction: Transaction, accountId: string, what: Counted, count: () => Promise<number>): Promise<void>
  /**
   * Counts one use in the current hour, unless the transaction rolls back. Throws `invalid_request` beyond the limit.
   */
  takeOne(transaction: Transaction, accountId: string, what: Hourly): Promise<void>
}

const hourMs = 3_600_000

/** Twice the number of open transactions: others may commit between the count and the lock. */
const farFromLimit = 1_000

const remedies: Readonly<Record<Counted | Hourly, (most: number) => string>> = {
  projects: (most) =>
    `The account has ${most} projects, as many as it may have. Delete one that is not needed any more.`,
  apps: (most) =>
    `name: the account has ${most} apps over all its projects, as many as it may have. Delete all deployments of an app ` +
    'that is not needed any more.',
  building: (most) =>
    `The account has ${most} deployments that wait to be built or are being built, as many as it may have. Wait until one has ` +
    'ended, or cancel one.',
  api_keys: (most) =>
    `The account has ${most} API keys, as many as it may have. Revoke one that is not needed any more, or wait until ` +
    'rotated ones have expired.',
  runs: (most) =>
    `The account has ${most} commands that run or wait for their connection, as many as it may have. Wait until one has ended, ` +
    'or end one.',
  schedules: (most) =>
    `The account has ${most} schedules, as many as it may have. Delete one that is not needed any more.`,
  domains: (most) => `The account has ${most} domains, as many as it may have. Remove one that is not needed any more.`,
  deployments_per_hour: (most) =>
    `The account has begun ${most} deployments within an hour, as many as it may. Try again later.`,
  webhook_tests_per_hour: (most) =>
    `The account has tested, redelivered or recovered webhooks ${most} times within an hour, as often as it may. ` +
    'Try again later.',
}

export function createTotals(dependencies: {
  readonly plans: Plans
  readonly tierOf: (on: Database | Transaction, accountId: string) => Promise<Tier>
}): Totals {
  const { plans, tierOf } = dependencies
  const of: Totals['of'] = async (on, accountId) => accountLimits(plans, await tierOf(on, accountId))
  const hasRoom: Totals['hasRoom'] = async (transaction, accountId, what, count) => {
    const { [what]: most } = await of(transaction, accountId)
    const name = `${what} of ${accountId}`
    // Under the exclusive lock, each creation would wait until the disk has stored the previous one.
    if (most > farFromLimit && (await count()) < most - farFromLimit) {
      await shareByName(transaction, name)
      return true
    }
    await lockByName(transaction, name)
    return (await count()) < most
  }
  return {
    of,
    hasRoom,

    async assertRoom(transaction, accountId, what, count) {
      if (await hasRoom(transaction, accountId, what, count)) return
      throw exceeded(what, (await of(transaction, accountId))[what])
    },

    async takeOne(transaction, accountId, what) {
      const { [what]: most } = await of(transaction, accountId)
      const retryAfter = await takeWithin(
        transaction,
        { name: 'totals', most, windowMs: hourMs },
        `${what} ${accountId}`,
      )
      if (retryAfter !== undefined) throw exceeded(what, most, retryAfter)
    },
  }
}

function exceeded(what: Counted | Hourly, most: number, retryAfter?: number): ApiError {
  return new ApiError('invalid_request', remedies[what](most), {
    limit: what,
    most,
    ...(retryAfter === undefined ? {} : { retry_after: retryAfter }),
  })
}
