import { databaseNow, type Transaction } from '../platform/database.ts'
import { afterCheck, type CheckHistory, nextCheckAt } from './due.ts'
import { claimed, contested, contestsOf, displace, hold, isEnough, rivalOf } from './ownership.ts'
import { electPrimary } from './primary.ts'
import { lockDomain, lockNames } from './rows.ts'
import { type DomainProblem, type DomainRow, tablesOf } from './tables.ts'

/** The DNS of a domain as a check has found it. */
export interface Findings {
  /** True when visitors of the name reach this server, and a certificate can be had where this server obtains them. */
  readonly isRight: boolean
  /** True when the TXT record with the token of the domain is there. */
  readonly isProven: boolean
  /** True when a CNAME record of the name leads to the host name of its own app. */
  readonly leadsToApp: boolean
  readonly problems: readonly DomainProblem[]
}

/** Locks an app until the transaction ends. */
export type LockApp = (transaction: Transaction, appId: string) => Promise<void>

/**
 * Applies the findings of a check to a domain: it becomes active or failing, and may take its name away from another account.
 * Does nothing for a domain that is gone, or whose token has changed since: the check has looked for the old one. Findings of a look
 * that began before another one, which has settled already, are dropped.
 *
 * @param check.checked the domain as it was checked
 * @param check.began the time at which the look began
 * @param check.isAsked true when its owner has asked for the check
 */
export async function settle(
  transaction: Transaction,
  lockApp: LockApp,
  check: {
    readonly checked: Pick<DomainRow, 'id' | 'token' | 'registered' | 'app_id' | 'name'>
    readonly began: Date
    readonly findings: Findings
    readonly isAsked: boolean
  },
): Promise<void> {
  const { checked, began, findings, isAsked } = check
  // In this order everywhere: names, apps by their ids, rows.
  await lockNames(transaction, checked)
  const rival = await rivalOf(transaction, checked)
  const appIds = [...new Set([checked.app_id, ...(rival === undefined ? [] : [rival.app_id])])].sort()
  for (const appId of appIds) await lockApp(transaction, appId)
  const domain = await lockDomain(transaction, checked.id)
  if (domain === undefined || domain.token !== checked.token) return
  const now = await databaseNow(transaction)
  const before: CheckHistory = isAsked ? { ...domain, asked_at: now, checks: 0 } : domain
  if (isOlder(began, domain, now)) {
    // The owner has asked for further checks nevertheless.
    if (isAsked) await store(transaction, domain, { ...before, checks: 1 }, domain, now)
    return
  }
  const checked_at = began
  if (domain.status === 'pending') await settlePending(transaction, { domain, before, rival, findings, began, now })
  else {
    const after = afterCheck(before, findings.isRight, now)
    await store(transaction, domain, after, { problems: findings.problems, checked_at }, now)
  }
  for (const appId of appIds) await electPrimary(transaction, appId)
}

/** True for a look that began before the last one that has settled. A later time than now is of a clock that was ahead. */
const isOlder = (began: Date, { checked_at }: Pick<DomainRow, 'checked_at'>, now: Date): boolean =>
  checked_at !== null && began < checked_at && checked_at <= now

async function settlePending(
  transaction: Transaction,
  given: {
    readonly domain: DomainRow
    readonly before: CheckHistory
    readonly rival: Pick<DomainRow, 'id'> | undefined
    readonly findings: Findings
    readonly began: Date
    readonly now: Date
  },
): Promise<void> {
  const { domain, before, rival, findings, began: checked_at, now } = given
  const contest = (await contestsOf(transaction, [domain])).get(domain.id)
  const unproven = !isEnough(contest, findings)
  const history = { ...before, checks: before.checks + 1 }
  if (!findings.isRight || unproven) {
    const wasClaimed = domain.problems.some(({ code }) => code === claimed(domain.name).code)
    const ownership = unproven ? [wasClaimed ? claimed(domain.name) : contested(domain.name)] : []
    return store(transaction, domain, history, { problems: [...ownership, ...findings.problems], checked_at }, now)
  }
  if (rival !== undefined) await displace(transaction, { id: rival.id, name: domain.name }, now)
  await store(transaction, domain, { ...history, status: 'active' }, { problems: findings.problems, checked_at }, now)
  await hold(transaction, domain, now)
}

async function store(
  transaction: Transaction,
  { id, served_since }: DomainRow,
  history: CheckHistory,
  { problems, checked_at }: { readonly problems: readonly DomainProblem[]; readonly checked_at: Date | null },
  now: Date,
): Promise<void> {
  const { status, asked_at, checks, wrong_checks, wrong_since } = history
  await tablesOf(transaction)
    .updateTable('domains')
    .set({
      ...{ status, asked_at, checks, wrong_checks, wrong_since },
      problems: JSON.stringify(problems),
      checked_at,
      next_check_at: nextCheckAt(history, now),
      served_since: status === 'pending' ? null : (served_since ?? now),
    })
    .where('id', '=', id)
    .execute()
}
