import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type { Database, Transaction } from '../platform/database.ts'
import { ownershipName } from './checks/facts.ts'
import { type CheckHistory, nextCheckAt } from './due.ts'
import { servedStatuses } from './rows.ts'
import { type DomainProblem, type DomainRow, tablesOf } from './tables.ts'

/** Returns a new value for the TXT record that proves ownership: 160 random bits in letters that every form accepts. */
export const newDomainToken = (): string => randomBytes(20).toString('hex')

/**
 * The reason for which an account must prove that a name is its own. `held`: another account serves a name of the same registered
 * domain, or had one last; the TXT record alone proves against that. `wanted`: another account has only added one, and this one has had none; a
 * CNAME record of the name that leads to the app proves as much, because the owner of the DNS has chosen the app.
 */
export type Contest = 'held' | 'wanted'

/**
 * Returns the contests of those pending domains that have one, by their ids. All names of a registered domain count, so an account
 * that leads many names here by one DNS record, and adds some of them, does not lose the others to the first one that asks.
 */
export async function contestsOf(
  on: Database | Transaction,
  domains: readonly Pick<DomainRow, 'id' | 'status'>[],
): Promise<ReadonlyMap<string, Contest>> {
  const ids = domains.flatMap(({ id, status }) => (status === 'pending' ? [id] : []))
  if (ids.length === 0) return new Map()
  const { rows } = await sql<{ id: string; contest: Contest | null }>`
    select id, case
      when ${hasNames('<>')} then 'held'
      when not ${hasNames('=')} and exists (
        select from domains other
        where other.registered = own.registered and other.status = 'pending' and other.account_id <> own.account_id
      ) then 'wanted'
    end as contest
    from domains own where id = any(${ids}::text[])`.execute(on)
  return new Map(rows.flatMap(({ id, contest }) => (contest === null ? [] : [[id, contest] as const])))
}

/**
 * Tells if an account serves a name of the registered domain of `own`, or had one last: the account of `own`, or another one. Names
 * below a domain begin with it when both are read backwards; `/` is the character after the dot.
 */
function hasNames(comparison: '=' | '<>') {
  const account = sql`account_id ${sql.raw(comparison)} own.account_id`
  return sql<boolean>`(
    exists (select from domains other where other.registered = own.registered and other.status <> 'pending' and other.${account})
    or exists (select from domain_holders holder where holder.name in (own.name, own.registered) and holder.${account})
    or exists (
      select from domain_holders holder
      where reverse(holder.name) >= reverse(own.registered) || '.'
        and reverse(holder.name) < reverse(own.registered) || '/' and holder.${account}
    )
  )`
}

/** Tells if what DNS says is enough for an account to have a name. */
export function isEnough(
  contest: Contest | undefined,
  { isProven, leadsToApp }: { readonly isProven: boolean; readonly leadsToApp: boolean },
): boolean {
  return contest === undefined || isProven || (contest === 'wanted' && leadsToApp)
}

/** The problem of a name that another account may own. It does not name that account: nobody learns who has a name. */
export const contested = (name: string): DomainProblem => ({
  code: 'ownership_unproven',
  message:
    `Another account has ${name}, had it last or has added it, or other names of the same domain. Set the TXT record ` +
    `${ownershipName(name)}, which proves that this one is yours.`,
  severity: 'error',
})

/** The problem of a name that another account has taken over. */
export const claimed = (name: string): DomainProblem => ({
  code: 'claimed',
  message:
    `Another account has proved by a TXT record that ${name} is its own, so it is not served here any more. If it is yours, set ` +
    'the TXT record anew: its value has changed.',
  severity: 'error',
})

/** Returns the domain of another account that has a name, which is the one to displace. */
export function rivalOf(
  transaction: Transaction,
  { id, name }: Pick<DomainRow, 'id' | 'name'>,
): Promise<Pick<DomainRow, 'id' | 'app_id'> | undefined> {
  return tablesOf(transaction)
    .selectFrom('domains')
    .select(['id', 'app_id'])
    .where('name', '=', name)
    .where('status', 'in', [...servedStatuses])
    .where('id', '<>', id)
    .executeTakeFirst()
}

/**
 * Takes a name away from a domain, which is pending from then on. It gets another token: its old TXT record may still be
 * there, and would take the name back.
 */
export async function displace(
  transaction: Transaction,
  { id, name }: Pick<DomainRow, 'id' | 'name'>,
  now: Date,
): Promise<void> {
  const history: CheckHistory = { status: 'pending', asked_at: now, checks: 0, wrong_checks: 0, wrong_since: null }
  await tablesOf(transaction)
    .updateTable('domains')
    .set({
      ...history,
      is_primary: false,
      served_since: null,
      token: newDomainToken(),
      problems: JSON.stringify([claimed(name)]),
      next_check_at: nextCheckAt({ ...history, checks: 1 }, now),
    })
    .where('id', '=', id)
    .execute()
}

/** Records the account at which a name is served, which `contestsOf` must know when it is not served any more. */
export async function hold(
  transaction: Transaction,
  { name, account_id }: Pick<DomainRow, 'name' | 'account_id'>,
  now: Date,
): Promise<void> {
  const held = { account_id, held_at: now }
  await tablesOf(transaction)
    .insertInto('domain_holders')
    .values({ name, ...held })
    .onConflict((conflict) => conflict.column('name').doUpdateSet(held))
    .execute()
}

/**
 * Records that the server's own names are the operator's. So the names beside them, which the DNS of the operator may lead here
 * together with those of apps, are had by others with the TXT record alone.
 */
export async function holdOwnNames(database: Database, operatorId: string, names: readonly string[]): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    for (const name of names) await hold(transaction, { name, account_id: operatorId }, new Date())
  })
}

/** The names that are kept for an account. Wildcards in DNS make names free of charge, so there must be a limit. */
const mostHeld = 10_000

/** Forgets the names that accounts had longest ago, beyond `mostHeld` of each. */
export async function forgetHolders(database: Database): Promise<void> {
  await sql`
    delete from domain_holders where name in (
      select name from (
        select name, row_number() over (partition by account_id order by held_at desc, name) as place from domain_holders
      ) as placed where place > ${mostHeld}
    ) and not exists (
      select from domains
      where domains.name = domain_holders.name and domains.account_id = domain_holders.account_id
        and domains.status <> 'pending'
    )`.execute(database)
}
