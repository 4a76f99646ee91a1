import { invalidRequest } from '../contract/errors.ts'
import type { Transaction } from '../platform/database.ts'
import { type Plans, plansForTier } from '../platform/plans.ts'

export interface ChoiceDependencies {
  /** The configured regions; empty when any region may be named. */
  readonly regions: readonly string[]
  readonly plans: Plans
  /** Reads the tier of an account inside the transaction. */
  readonly tierOf: (transaction: Transaction, accountId: string) => Promise<string>
}

/** Returns the plan if the account's tier may use it. Throws `invalid_request`. */
export async function checkPlan(
  { plans, tierOf }: Pick<ChoiceDependencies, 'plans' | 'tierOf'>,
  transaction: Transaction,
  accountId: string,
  plan: string,
): Promise<string> {
  const allowed = plansForTier(plans, await tierOf(transaction, accountId))
  if (!allowed.includes(plan)) {
    throw invalidRequest({ field: 'plan', message: `must be one of: ${allowed.join(', ')}` })
  }
  return plan
}

/** Returns the region if it is one of the configured ones. Throws `invalid_request`. */
export function checkRegion({ regions }: Pick<ChoiceDependencies, 'regions'>, region: string): string {
  if (regions.length > 0 && !regions.includes(region)) {
    throw invalidRequest({ field: 'region', message: `must be one of: ${regions.join(', ')}` })
  }
  return region
}
