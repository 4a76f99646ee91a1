import type { Database } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import { type Repeated, startRepeated } from '../platform/periodic.ts'
import { dueDomains, postponeCheck, untilNextCheck } from './rows.ts'
import type { RunCheck } from './run-check.ts'
import type { DomainRow } from './tables.ts'

/** The longest time between two looks for checks that are due, in case that a notification was missed. */
const lookMs = 30_000
/** The time between two looks while checks are under way, whose end makes room for others. */
const whileUnderWayMs = 1_000
/** The checks that are begun together, of all accounts and of each; each waits for its turn. */
const atOnce = { all: 50, each: 5 }
/** The shortest time between two looks. */
const shortestMs = 10

/** Checks domains when it is time, in the leader. */
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
    // Those that are under way still count as due, so the time of the next one is not known.
    if (underWay.size > 0) return whileUnderWayMs
    return Math.min(Math.max((await untilNextCheck(database)) ?? lookMs, shortestMs), lookMs)
  }

  const repeated = startRepeated(pass, (error) => {
    logger.error({ err: error }, 'the checks of domains cannot be looked for')
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

/** Returns the accounts that have as many checks under way as they may. */
function busyAccounts(underWay: readonly { readonly accountId: string }[]): string[] {
  const counts = Map.groupBy(underWay, ({ accountId }) => accountId)
  return [...counts].flatMap(([accountId, checks]) => (checks.length >= atOnce.each ? [accountId] : []))
}

/** Never rejects. A check that could not be made is made later. */
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
      logger.error({ err: cause, domain: domain.id }, 'the check of a domain could not be put off'),
    )
  }
}
