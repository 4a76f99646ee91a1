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
 * Returns the ids of those pending domains whose accounts must prove that the names are theirs: another account serves a name of
 * the same registered domain, or had this name last or a wildcard that covers it. So an account that leads many names here by one DNS
 * record, and adds some of them, does not lose the others to the first one that asks.
 */
export async function contestedOf(
  on: Database | Transaction,
  domains: readonly Pick<DomainRow, 'id' | 'status'>[],
): Promise<ReadonlySet<string>> {
  const ids = domains.flatMap(({ id, status }) => (status === 'pending' ? [id] : []))
  if (ids.length === 0) return new Set()
  const { rows } = await sql<{ id: string }>`
    select id from domains own
    where id = any(${ids}::text[]) and (
      exists (
        select from domains other
        where other.registered = own.registered and other.status <> 'pending' and other.account_id <> own.account_id
      )
      or exists (
        select from domain_holders holder
        where holder.name in (own.name, '*.' || substr(own.name, strpos(own.name, '.') + 1))
          and holder.account_id <> own.account_id
      )
    )`.execute(on)
  return new Set(rows.map(({ id }) => id))
}

/** The problem of a name that another account may own. It does not name that account: nobody learns who has a name. */
export const contested = (name: string): DomainProblem => ({
  code: 'ownership_unproven',
  message:
    `Another account has ${name} or had it last, or has other names of the same domain. Set the TXT record ${ownershipName(name)}, which ` +
    'proves that this one is yours.',
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

/** Records the account at which a name is served, which `contestedOf` must know when it is not served any more. */
export async function hold(transaction: Transaction, { name, account_id }: DomainRow, now: Date): Promise<void> {
  const held = { account_id, held_at: now }
  await tablesOf(transaction)
    .insertInto('domain_holders')
    .values({ name, ...held })
    .onConflict((conflict) => conflict.column('name').doUpdateSet(held))
    .execute()
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
