import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Findings, startChecker } from '../../../server/src/features/domains/checker.ts'
import { servedDomains } from '../../../server/src/features/domains/rows.ts'
import type { DomainRow } from '../../../server/src/features/domains/tables.ts'
import { type DomainsOnDatabase, domainsOnDatabase, type Owner } from './feature.ts'

/** Records every lookup. `finds` has the results by name; by default a name does not lead here. */
const looked: string[] = []
const found = new Map<string, () => Promise<Findings>>()
const right: Findings = { isRight: true, isProven: false, leadsToApp: false, problems: [] }
const wrong: Findings = {
  ...{ isRight: false, isProven: false, leadsToApp: false },
  problems: [{ code: 'elsewhere', message: 'It leads elsewhere.', severity: 'error' }],
}

let domains: DomainsOnDatabase
let owner: Owner
let checker: ReturnType<typeof startChecker> | undefined
beforeEach(async () => {
  looked.length = 0
  found.clear()
  domains = await domainsOnDatabase(async ({ name }) => {
    looked.push(name)
    return found.get(name)?.() ?? wrong
  })
  owner = await domains.owner(1)
})
afterEach(async () => {
  await checker?.stop()
  checker = undefined
  await domains?.[Symbol.asyncDispose]()
})

const log: unknown[] = []
const logger = {
  warn: (problem: unknown) => void log.push(problem),
  error: (problem: unknown) => void log.push(problem),
}
const start = () => {
  checker = startChecker({ database: domains.database, runCheck: domains.runCheck, logger })
  return checker
}
const add = (name: string) => domains.add(owner, owner.apps[0] ?? '', { name, redirect: false })
const due = (id: string) => domains.query('update domains set next_check_at = now() where id = $1', [id])

it('a domain is checked soon after its creation, and again at its time', async () => {
  const checks = start()
  const domain = await add('shop.test')
  checks.wake()
  await expect.poll(async () => (await domains.get(owner, domain)).problems).toEqual(wrong.problems)
  found.set('shop.test', async () => right)
  await due(domain.id)
  checks.wake()
  await expect.poll(async () => (await domains.get(owner, domain)).status).toBe('active')
  expect(looked).toEqual(['shop.test', 'shop.test'])
})

it('due domains are checked at the start, and no others', async () => {
  const [soon, later, resting] = [await add('soon.test'), await add('later.test'), await add('resting.test')]
  await domains.query("update domains set next_check_at = now() + interval '1 hour' where id = $1", [later.id])
  await domains.query('update domains set next_check_at = null where id = $1', [resting.id])
  start()
  await expect.poll(async () => (await domains.get(owner, soon)).checked_at).not.toBeNull()
  expect(looked).toEqual(['soon.test'])
})

it('a time that was stored while the clock was ahead is due', async () => {
  const domain = await add('ahead.test')
  await domains.query("update domains set next_check_at = now() + interval '3 days' where id = $1", [domain.id])
  start()
  await expect.poll(async () => (await domains.get(owner, domain)).checked_at).not.toBeNull()
})

it('a failed check is repeated later, and delays no other check', async () => {
  found.set('broken.test', () => Promise.reject(new Error('no descriptors are left')))
  const broken = await add('broken.test')
  const other = await add('other.test')
  start()
  await expect.poll(async () => (await domains.get(owner, other)).checked_at).not.toBeNull()
  await expect
    .poll(async () => Date.parse((await domains.get(owner, broken)).next_check_at ?? ''))
    .toBeGreaterThan(Date.now() + 200_000)
  expect((await domains.get(owner, broken)).checked_at).toBeNull()
})

it('a served domain stays served when its DNS is wrong, and fails after three checks over an hour', async () => {
  const domain = await add('shop.test')
  found.set('shop.test', async () => right)
  expect((await domains.check(owner, domain)).status).toBe('active')
  found.delete('shop.test')
  const statuses: string[] = []
  for (const minutesAgo of [0, 40, 80]) {
    await domains.query("update domains set wrong_since = wrong_since - interval '40 minutes' where id = $1", [
      domain.id,
    ])
    const { status, problems } = await domains.check(owner, domain)
    statuses.push(status)
    expect([minutesAgo, problems]).toEqual([minutesAgo, wrong.problems])
  }
  expect(statuses).toEqual(['active', 'active', 'failing'])
  expect(await servedDomains(domains.database)).toMatchObject([{ name: 'shop.test' }])
  found.set('shop.test', async () => right)
  expect(await domains.check(owner, domain)).toMatchObject({ status: 'active', primary: true, problems: [] })
})

it('an account whose name servers do not answer delays no other account', async () => {
  const answer = Promise.withResolvers<Findings>()
  const slow = Array.from({ length: 12 }, (_, n) => `slow-${n}.test`)
  for (const name of slow) {
    found.set(name, () => answer.promise)
    await add(name)
  }
  const other = await domains.owner(1)
  const quick = await domains.add(other, other.apps[0] ?? '', { name: 'quick.test', redirect: false })
  start()
  await expect.poll(async () => (await domains.get(other, quick)).checked_at).not.toBeNull()
  await expect.poll(() => looked.filter((name) => name.startsWith('slow-')).length).toBe(5)
  answer.resolve(wrong)
  await expect.poll(() => looked.length).toBe(13)
})

it('stops during a check', async () => {
  const begun = Promise.withResolvers<void>()
  await checker?.stop()
  await domains[Symbol.asyncDispose]()
  domains = await domainsOnDatabase((_domain, signal) => {
    begun.resolve()
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  })
  owner = await domains.owner(1)
  await add('slow.test')
  const checks = start()
  await begun.promise
  await checks.stop()
})

it.each([
  ['another check', false],
  ['the check of its owner', true],
])('the result of a slow check does not replace a result that %s has found since', async (_, isAsked) => {
  const domain = await add('shop.test')
  const [row] = await domains.query<DomainRow>('select * from domains where id = $1', [domain.id])
  const answer = Promise.withResolvers<Findings>()
  found.set('shop.test', () => answer.promise)
  const signal = new AbortController().signal
  const slow = domains.runCheck(row as DomainRow, { isAsked: !isAsked, signal })
  await expect.poll(() => looked.length).toBe(1)
  found.set('shop.test', async () => right)
  await domains.runCheck(row as DomainRow, { isAsked, signal })
  answer.resolve(wrong)
  await slow
  const now = await domains.get(owner, domain)
  expect(now).toMatchObject({ status: 'active', problems: [] })
  const [{ wrong_checks } = {}] = await domains.query<DomainRow>('select * from domains where id = $1', [domain.id])
  expect(wrong_checks).toBe(0)
})

it('the latest check counts, even when an earlier check ends during it', async () => {
  const domain = await add('shop.test')
  const [row] = await domains.query<DomainRow>('select * from domains where id = $1', [domain.id])
  const answer = Promise.withResolvers<Findings>()
  const signal = new AbortController().signal
  found.set('shop.test', async () => {
    found.set('shop.test', () => answer.promise)
    const later = domains.runCheck(row as DomainRow, { isAsked: false, signal })
    await expect.poll(() => looked.length).toBe(2)
    pending.push(later)
    return wrong
  })
  const pending: Promise<void>[] = []
  await domains.runCheck(row as DomainRow, { isAsked: false, signal })
  answer.resolve(right)
  await Promise.all(pending)
  expect(await domains.get(owner, domain)).toMatchObject({ status: 'active', problems: [] })
})

it('a domain is checked after a clock was ahead', async () => {
  const domain = await add('shop.test')
  await domains.query("update domains set checked_at = now() + interval '1 year' where id = $1", [domain.id])
  found.set('shop.test', async () => right)
  expect(await domains.check(owner, domain)).toMatchObject({ status: 'active', problems: [] })
})
