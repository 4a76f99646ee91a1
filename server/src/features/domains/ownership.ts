import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import { ownershipName } from './checks/facts.ts'
import { type CheckHistory, nextCheckAt } from './due.ts'
import { servedStatuses } from './rows.ts'
import { type DomainProblem, type DomainRow, tablesOf } from './tables.ts'

/**
 * Returns a new value for the TXT record that proves ownership: 160 random bits in characters that every form accepts.
 */
export const newDomainToken = (): string => randomBytes(20).toString('hex')

/**
 * The reason why an account must prove that it owns a name. `held`: another account serves a name of the same
 * registered domain, or was the last to have such a name; only the TXT record is proof then. `wanted`: another account
 * has only added such a name, and this account has never had such a name; a CNAME record from the name to the app is
 * also proof, because the owner of the DNS has chosen the app.
 */
export type Contest = 'held' | 'wanted'

/**
 * Returns the contests of the pending domains, by their ids. All names of a registered domain count: an account may
 * lead many names here with one DNS record and add only some of them. Other accounts must not get the remaining names
 * by asking first.
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
 * Builds a condition: true when an account serves a name of the registered domain of `own`, or was the last to have
 * such a name. The account is the account of `own` (`=`), or any other (`<>`). Read backwards, names below a domain
 * begin with the domain; `/` is the character after the dot.
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

export function isEnough(
  contest: Contest | undefined,
  { isProven, leadsToApp }: { readonly isProven: boolean; readonly leadsToApp: boolean },
): boolean {
  return contest === undefined || isProven || (contest === 'wanted' && leadsToApp)
}

/** The problem of a name that another account may own. It does not name that account, which must stay unknown. */
export const contested = (name: string): DomainProblem => ({
  code: 'ownership_unproven',
  message:
    `Another account has ${name}, had it last or has added it, or other names of the same domain. Set the TXT record ` +
    `${ownershipName(name)}, which proves that this one is yours.`,
  severity: 'error',
})

export const claimed = (name: string): DomainProblem => ({
  code: 'claimed',
  message:
    `Another account has proved by a TXT record that ${name} is its own, so it is not served here any more. If it is yours, set ` +
    'the TXT record anew: its value has changed.',
  severity: 'error',
})

/** Returns the other domain that is served under a name, which must be displaced. */
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
 * Takes a name away from a domain, which becomes pending. It gets a new token, because its old TXT record could take
 * the name back.
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

/** Records the account that serves a name. `contestsOf` needs this after the name is no longer served. */
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
 * Records that the server's names belong to the operator. The operator's DNS may lead neighbouring names here, too,
 * together with the names of apps; so other accounts need the TXT record for such names.
 */
export async function holdOwnNames(database: Database, operatorId: string, names: readonly string[]): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    for (const name of names) await hold(transaction, { name, account_id: operatorId }, new Date())
  })
}

/** The most names recorded for an account. With wildcards in DNS, names cost nothing, so there must be a limit. */
const mostHeld = 10_000

/** Forgets the names that were recorded longest ago, beyond `mostHeld` for each account. */
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
