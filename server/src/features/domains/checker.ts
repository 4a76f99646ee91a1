import { type Database, databaseNow, type Transaction } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Repeated, startRepeated } from '../../platform/periodic.ts'
import { createSlots } from '../../platform/slots.ts'
import { afterCheck, type CheckHistory, nextCheckAt } from './due.ts'
import { claimed, contested, contestsOf, displace, hold, isEnough, rivalOf } from './ownership.ts'
import { dueDomains, electPrimary, lockDomain, lockNames, postponeCheck, untilNextCheck } from './rows.ts'
import { type DomainProblem, type DomainRow, tablesOf } from './tables.ts'

/** The longest time between two checks, in case a notification was missed. */
const lookMs = 30_000
/** The time between two searches while checks are running. Finished checks make room for other domains. */
const whileUnderWayMs = 1_000
/** The most running checks, in total and for each account. */
const atOnce = { all: 50, each: 5 }
const shortestMs = 10

export function startChecker(dependencies: {
  readonly database: Database
  readonly runCheck: RunCheck
  readonly logger: Pick<Logger, 'warn' | 'error'>
}): Repeated {
  const { database, logger } = dependencies
  const stopping = new AbortController()
  const underWay = new Map<string, { readonly accountId: string; readonly ended: Promise<void> }>()

  const begin = (domain: DomainRow): void => {
    if (underWay.has(domain.id)) return
    const ended = checkOne(dependencies, domain, stopping.signal).finally(() => underWay.delete(domain.id))
    underWay.set(domain.id, { accountId: domain.account_id, ended })
  }

  const pass = async (): Promise<number> => {
    const room = atOnce.all - underWay.size
    const without = { ids: [...underWay.keys()], accounts: busyAccounts([...underWay.values()]) }
    for (const domain of room > 0 ? await dueDomains(database, without, { ...atOnce, all: room }) : []) begin(domain)
    // Running checks still count as due, so the time of the next check is unknown.
    if (underWay.size > 0) return whileUnderWayMs
    return Math.min(Math.max((await untilNextCheck(database)) ?? lookMs, shortestMs), lookMs)
  }

  const repeated = startRepeated(pass, (error) => {
    logger.error({ err: error }, 'due checks of domains cannot be read')
    return lookMs
  })
  return {
    wake: repeated.wake,
    async stop() {
      stopping.abort(new Error('the server is stopping'))
      await repeated.stop()
      await Promise.all([...underWay.values()].map(({ ended }) => ended))
    },
  }
}

function busyAccounts(underWay: readonly { readonly accountId: string }[]): string[] {
  const counts = Map.groupBy(underWay, ({ accountId }) => accountId)
  return [...counts].flatMap(([accountId, checks]) => (checks.length >= atOnce.each ? [accountId] : []))
}

/** Never rejects: a failed check is repeated later. */
async function checkOne(
  { database, runCheck, logger }: Parameters<typeof startChecker>[0],
  domain: DomainRow,
  stopping: AbortSignal,
): Promise<void> {
  try {
    await runCheck(domain, { isAsked: false, signal: stopping })
  } catch (error) {
    if (stopping.aborted) return
    logger.warn({ err: error, domain: domain.id }, 'a domain could not be checked')
    await postponeCheck(database, domain.id).catch((cause: unknown) =>
      logger.error({ err: cause, domain: domain.id }, 'the check of a domain could not be postponed'),
    )
  }
}

/** Examines the DNS of a domain. Timeouts are findings; rejects only when `signal` aborts. */
export type LookAtDns = (
  domain: Pick<DomainRow, 'id' | 'name' | 'token' | 'account_id' | 'app_id' | 'status'>,
  signal: AbortSignal,
) => Promise<Findings>

export interface CheckOptions {
  /** True for a check that the domain's owner has requested. */
  readonly isAsked: boolean
  readonly signal: AbortSignal
  readonly within?: (transaction: Transaction) => Promise<void>
}

/** Checks a domain and applies the findings to it. When `signal` aborts, it rejects and leaves the domain unchanged. */
export type RunCheck = (domain: DomainRow, options: CheckOptions) => Promise<void>

/** Enough time for several name servers that do not answer. */
const deadlineMs = 30_000
/** The concurrent checks of one process; accounts take turns. */
const runAtOnce = 8

export function createRunCheck(dependencies: {
  readonly database: Database
  readonly lockApp: LockApp
  readonly look: LookAtDns
}): RunCheck {
  const { database, lockApp, look } = dependencies
  const slots = createSlots(runAtOnce)
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
  message: 'The name servers of the domain answered too slowly to check it. It is checked again automatically.',
  severity: 'error',
}

export interface Findings {
  /** True when visitors reach this server, and it can obtain a certificate if it obtains certificates at all. */
  readonly isRight: boolean
  /** True when the TXT record with the domain's token exists. */
  readonly isProven: boolean
  /** True when a CNAME record of the name leads to the host name of the domain's own app. */
  readonly leadsToApp: boolean
  readonly problems: readonly DomainProblem[]
}

type LockApp = (transaction: Transaction, appId: string) => Promise<void>

/**
 * Applies the findings of a check to a domain: it becomes active or failing, and may take its name from another
 * account. Drops the findings for a domain that is gone or has another token now, and of a check that began before the
 * last stored check.
 *
 * @param check.checked the domain as it was checked
 * @param check.began the time at which the check began
 * @param check.isAsked true when the domain's owner has requested the check
 */
async function settle(
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
  // All code locks in this order: names, apps by their ids, rows.
  await lockNames(transaction, checked)
  const rival = await rivalOf(transaction, checked)
  const appIds = [...new Set([checked.app_id, ...(rival === undefined ? [] : [rival.app_id])])].sort()
  for (const appId of appIds) await lockApp(transaction, appId)
  const domain = await lockDomain(transaction, checked.id)
  if (domain === undefined || domain.token !== checked.token) return
  const now = await databaseNow(transaction)
  const before: CheckHistory = isAsked ? { ...domain, asked_at: now, checks: 0 } : domain
  if (isOlder(began, domain, now)) {
    // The owner still gets the requested series of checks.
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

/** True for a check that began before the last stored check. A stored time after `now` comes from a wrong clock. */
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
