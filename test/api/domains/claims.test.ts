import { afterEach, beforeEach, expect, it } from 'vitest'
import { holdOwnNames } from '../../../server/src/features/domains/ownership.ts'
import { servedDomains } from '../../../server/src/features/domains/rows.ts'
import type { DomainRow } from '../../../server/src/features/domains/tables.ts'
import { type Domain, type DomainsOnDatabase, domainsOnDatabase, type Owner } from './feature.ts'

/** The tokens in TXT records. Every name leads here. */
const proofs = new Set<string>()
/** The apps to which the CNAME records lead. */
const aliases = new Set<string>()

let domains: DomainsOnDatabase
let first: Owner
let second: Owner
beforeEach(async () => {
  proofs.clear()
  aliases.clear()
  const look = async ({ token, app_id }: { readonly token: string; readonly app_id: string }) => ({
    isRight: true,
    isProven: proofs.has(token),
    leadsToApp: aliases.has(app_id),
    problems: [],
  })
  domains = await domainsOnDatabase(look)
  first = await domains.owner(2)
  second = await domains.owner(1)
})
afterEach(() => domains?.[Symbol.asyncDispose]())

const appOf = ({ apps }: Owner, index = 0) => apps[index] ?? ''
const add = (owner: Owner, name: string, app = 0) => domains.add(owner, appOf(owner, app), { name, redirect: false })
const served = async (owner: Owner, name: string, app = 0) => domains.check(owner, await add(owner, name, app))
const codes = ({ problems }: Domain) => problems.map(({ code }) => code)

it('another account gets a name only by the TXT record, and the previous account loses it at once', async () => {
  const had = await served(first, 'shop.test')
  expect(had).toMatchObject({ status: 'active', primary: true, records: [], problems: [] })
  const wanted = await served(second, 'shop.test')
  expect([wanted.status, codes(wanted)]).toEqual(['pending', ['ownership_unproven']])
  const [challenge] = wanted.records
  expect(challenge).toMatchObject({ type: 'TXT', name: '_fairlead-challenge.shop.test', purpose: 'ownership' })
  expect(await domains.get(first, had)).toMatchObject({ status: 'active' })

  proofs.add(challenge?.value ?? '')
  expect(await domains.check(second, wanted)).toMatchObject({ status: 'active', primary: true, problems: [] })
  const lost = await domains.get(first, had)
  expect([lost.status, lost.primary, codes(lost)]).toEqual(['pending', false, ['claimed']])
  expect(await servedDomains(domains.database)).toMatchObject([{ appId: appOf(second), name: 'shop.test' }])
})

it('the account that lost a name needs a new record: the old record does not restore it', async () => {
  const had = await served(first, 'shop.test')
  const [{ token = '' } = {}] = await domains.query<{ token: string }>('select token from domains where id = $1', [
    had.id,
  ])
  proofs.add(token)
  const wanted = await add(second, 'shop.test')
  proofs.add(wanted.records[0]?.value ?? '')
  await domains.check(second, wanted)
  const again = await domains.check(first, had)
  expect([again.status, codes(again)]).toEqual(['pending', ['claimed']])
  expect(again.records[0]?.value).not.toBe(token)
  proofs.add(again.records[0]?.value ?? '')
  expect((await domains.check(first, had)).status).toBe('active')
})

it('no text reveals who has a name', async () => {
  await served(first, 'shop.test')
  const wanted = JSON.stringify(await served(second, 'shop.test'))
  for (const id of [first.account, first.project, ...first.apps]) expect(wanted).not.toContain(id)
})

it('a removed name is free for its account at once, and for others by the TXT record', async () => {
  await domains.remove(first, await served(first, 'shop.test'))
  const wanted = await served(second, 'shop.test')
  expect([wanted.status, wanted.records.length]).toEqual(['pending', 1])
  expect((await served(first, 'shop.test', 1)).status).toBe('active')
})

it('names beside the server’s belong to the operator, and to others with the TXT record', async () => {
  await holdOwnNames(domains.database, first.account, ['apps.example.com', 'fairlead.example.net'])
  for (const name of ['example.com', 'www.example.com', '*.example.com', 'www.example.net']) {
    const wanted = await served(second, name)
    expect([wanted.status, codes(wanted)], name).toEqual(['pending', ['ownership_unproven']])
  }
  expect((await served(second, 'www.example.org')).status).toBe('active')
  expect((await served(first, 'www.example.com')).status).toBe('active')
})

it('an account moves a name between its apps by removing it first', async () => {
  const had = await served(first, 'shop.test')
  await expect(add(first, 'shop.test', 1)).rejects.toMatchObject({
    code: 'invalid_request',
    message: 'name: is a domain of another app of this account: remove it there first',
  })
  await expect(add(first, 'shop.test')).rejects.toMatchObject({ message: 'name: is a domain of this app already' })
  await domains.remove(first, had)
  expect((await served(first, 'shop.test', 1)).status).toBe('active')
})

it.each([
  ['a.shop.test', '*.shop.test'],
  ['*.shop.test', 'a.shop.test'],
])('beside %s of one account, another account needs the TXT record for %s', async (theirs, ours) => {
  const had = await served(first, theirs)
  const wanted = await served(second, ours)
  expect([wanted.status, codes(wanted)]).toEqual(['pending', ['ownership_unproven']])
  proofs.add(wanted.records[0]?.value ?? '')
  expect((await domains.check(second, wanted)).status).toBe('active')
  // Both are served: the exact name precedes the wildcard.
  expect((await domains.get(first, had)).status).toBe('active')
})

it('names of a domain in which another account has a name need the TXT record; other domains do not', async () => {
  await served(first, 'www.shop.co.uk')
  expect((await served(second, 'evil.shop.co.uk')).status).toBe('pending')
  expect((await served(second, 'shop.co.uk')).status).toBe('pending')
  expect((await served(second, 'a.b.shop.co.uk')).status).toBe('pending')
  expect((await served(second, 'other.co.uk')).status).toBe('active')
  expect((await served(first, 'more.shop.co.uk', 1)).status).toBe('active')
})

it('a name below a wildcard that an account had last needs the TXT record', async () => {
  await domains.remove(first, await served(first, '*.shop.test'))
  expect((await served(second, 'a.shop.test')).status).toBe('pending')
})

it('a wildcard above a name that another account had last needs the TXT record, as do all names of the domain', async () => {
  await domains.remove(first, await served(first, 'shop.example.test'))
  expect((await served(second, '*.example.test')).status).toBe('pending')
  expect((await served(second, 'other.example.test')).status).toBe('pending')
  expect((await served(second, 'example.test')).status).toBe('pending')
  expect((await served(second, 'notexample.test')).status).toBe('active')
})

it('an account that added a name in advance gets it neither before nor after its owner has set DNS', async () => {
  const squatted = await add(first, 'shop.test')
  const wanted = await add(second, 'shop.test')
  expect((await domains.check(first, squatted)).status).toBe('pending')
  expect((await domains.check(second, wanted)).status).toBe('pending')
  aliases.add(appOf(second))
  expect((await domains.check(first, squatted)).status).toBe('pending')
  expect((await domains.check(second, wanted)).status).toBe('active')
  // The record proves nothing against an account that has the name.
  aliases.clear()
  aliases.add(appOf(first))
  expect((await domains.check(first, squatted)).status).toBe('pending')
})

it('an account that has a name of a domain gets others of it, although another account has added them', async () => {
  await served(first, 'www.example.test')
  await add(second, 'shop.example.test')
  expect((await served(first, 'shop.example.test')).status).toBe('active')
})

it('an account gets a wildcard and names below it without any record', async () => {
  await served(first, '*.shop.test')
  expect((await served(first, 'a.shop.test', 1)).status).toBe('active')
})

it('of many concurrent checks, one account gets the name', async () => {
  const owners = await Promise.all(Array.from({ length: 6 }, () => domains.owner(1)))
  const wanted = await Promise.all(owners.map(async (owner) => ({ owner, domain: await add(owner, 'shop.test') })))
  for (const { owner } of wanted) aliases.add(appOf(owner))
  await Promise.all(wanted.map(({ owner, domain }) => domains.check(owner, domain)))
  const after = await Promise.all(wanted.map(({ owner, domain }) => domains.get(owner, domain)))
  expect(after.map(({ status }) => status).sort()).toEqual(['active', ...Array<string>(5).fill('pending')])
})

it('a check that began before another account took the name changes nothing', async () => {
  const had = await served(first, 'shop.test')
  const [row] = await domains.query<DomainRow>('select * from domains where id = $1', [had.id])
  const wanted = await add(second, 'shop.test')
  proofs.add(wanted.records[0]?.value ?? '')
  await domains.check(second, wanted)
  proofs.add(row?.token ?? '')
  await domains.runCheck(row as DomainRow, { isAsked: true, signal: new AbortController().signal })
  expect((await domains.get(first, had)).status).toBe('pending')
})

it('a check of a removed domain changes nothing', async () => {
  const had = await add(first, 'shop.test')
  const [row] = await domains.query<DomainRow>('select * from domains where id = $1', [had.id])
  await domains.remove(first, had)
  await domains.runCheck(row as DomainRow, { isAsked: true, signal: new AbortController().signal })
  expect(await servedDomains(domains.database)).toEqual([])
})

it('a domain is checked at most six times in a minute, even when it is added again', async () => {
  const domain = await add(first, 'shop.test')
  for (let n = 0; n < 5; n++) await domains.check(first, domain)
  await domains.remove(first, domain)
  const again = await add(first, 'shop.test')
  await domains.check(first, again)
  await expect(domains.check(first, again)).rejects.toMatchObject({
    code: 'invalid_request',
    details: { most: 6, retry_after: expect.any(Number) },
  })
})

it('the first verified domain is primary, and the next one as soon as the first is removed', async () => {
  const [one, two] = [await served(first, 'one.test'), await served(first, 'two.test')]
  expect([one.primary, two.primary]).toEqual([true, false])
  await domains.remove(first, one)
  expect((await domains.get(first, two)).primary).toBe(true)
})

it('a primary domain that becomes a redirect passes its role to the first domain without one', async () => {
  const www = await domains.add(first, appOf(first), { name: 'www.shop.test', redirect: true })
  expect((await domains.check(first, www)).primary).toBe(true)
  const shop = await served(first, 'shop.test')
  expect(shop.primary).toBe(true)
  expect(await servedDomains(domains.database)).toMatchObject([
    { name: 'shop.test', redirectTo: null },
    { name: 'www.shop.test', redirectTo: 'shop.test' },
  ])
  expect(await domains.update(first, www, { primary: true })).toMatchObject({ primary: true, redirect: false })
  await expect(domains.update(first, www, { redirect: true })).rejects.toMatchObject({
    message: expect.stringContaining('make another one primary'),
  })
})

it('a wildcard is never primary and never redirects', async () => {
  const all = await served(first, '*.shop.test')
  expect(all.primary).toBe(false)
  await expect(domains.update(first, all, { primary: true })).rejects.toMatchObject({ code: 'invalid_request' })
  await expect(domains.update(first, all, { redirect: true })).rejects.toMatchObject({ code: 'invalid_request' })
  const redirecting = domains.add(first, appOf(first), { name: '*.more.test', redirect: true })
  await expect(redirecting).rejects.toMatchObject({ details: { field: 'redirect' } })
})
