import { type Database, databaseNow, type Transaction } from '../platform/database.ts'
import { createSlots } from '../platform/slots.ts'
import { type Findings, type LockApp, settle } from './settle.ts'
import type { DomainProblem, DomainRow } from './tables.ts'

/** Looks at the DNS of a domain. Resolves with what it has found, timeouts included; rejects when `signal` aborts. */
export type LookAtDns = (
  domain: Pick<DomainRow, 'id' | 'name' | 'token' | 'account_id' | 'app_id' | 'status'>,
  signal: AbortSignal,
) => Promise<Findings>

export interface CheckOptions {
  /** True when the owner of the domain has asked for the check. */
  readonly isAsked: boolean
  readonly signal: AbortSignal
  /** Runs in the transaction of the result, at its end. */
  readonly within?: (transaction: Transaction) => Promise<void>
}

/** Checks a domain and applies the findings to it. Rejects when `signal` aborts, and leaves the domain as it was. */
export type RunCheck = (domain: DomainRow, options: CheckOptions) => Promise<void>

/** Enough for several servers of a name that do not answer. */
const deadlineMs = 30_000
/** The checks at once of one process; accounts take turns. */
const atOnce = 8

export function createRunCheck(dependencies: {
  readonly database: Database
  readonly lockApp: LockApp
  readonly look: LookAtDns
}): RunCheck {
  const { database, lockApp, look } = dependencies
  const slots = createSlots(atOnce)
  return async (checked, { isAsked, signal, within }) => {
    const { began, findings } = await slots.use(checked.account_id, signal, async () => ({
      began: await databaseNow(database),
      findings: await lookInTime(look, checked, signal),
    }))
    await database.transaction().execute(async (transaction) => {
      await settle(transaction, lockApp, { checked, began, findings, isAsked })
      await within?.(transaction)
    })
  }
}

async function lookInTime(look: LookAtDns, domain: DomainRow, signal: AbortSignal): Promise<Findings> {
  const late = AbortSignal.timeout(deadlineMs)
  try {
    return await look(domain, AbortSignal.any([signal, late]))
  } catch (error) {
    if (signal.aborted || !late.aborted) throw error
    return { isRight: false, isProven: false, leadsToApp: false, problems: [tooSlow] }
  }
}

const tooSlow: DomainProblem = {
  code: 'check_timeout',
  message: 'The name servers of the domain answered too slowly to check it. It is checked again by itself.',
  severity: 'error',
}
