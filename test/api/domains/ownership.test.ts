import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { servedDomains } from '../../../server/src/features/domains/rows.ts'
import { type Domain, type DomainsOnDatabase, domainsOnDatabase, type Owner } from './feature.ts'

/**
 * DNS records as a check sees them: the names that lead here, the apps to which CNAME records lead, and the values of
 * TXT records by name.
 */
const dns = { reaching: new Set<string>(), aliases: new Map<string, string>(), proofs: new Map<string, Set<string>>() }
const challengeOf = (name: string) => `_fairlead-challenge.${name.replace('*.', '')}`

/** A CNAME of one app leads to no other. */
const isReaching = (name: string, appId: string) => dns.reaching.has(name) && (dns.aliases.get(name) ?? appId) === appId

let domains: DomainsOnDatabase
let owners: Owner[]
beforeAll(async () => {
  domains = await domainsOnDatabase(async ({ name, token, app_id }) => ({
    isRight: isReaching(name, app_id),
    isProven: dns.proofs.get(challengeOf(name))?.has(token) ?? false,
    leadsToApp: dns.aliases.get(name) === app_id,
    problems: [],
  }))
})
afterAll(() => domains?.[Symbol.asyncDispose]())

const names = ['x.test', 'a.x.test', '*.x.test', 'y.test']
const isWildcard = (name: string) => name.startsWith('*.')
const registeredOf = (name: string) => name.split('.').slice(-2).join('.')

/** A domain in the model. */
interface Kept {
  readonly owner: number
  readonly app: number
  readonly name: string
  status: 'pending' | 'active'
  /** The token of the domain; a claim by another account makes another token. */
  token: string
  redirect: boolean
}

interface Model {
  domains: Kept[]
  readonly holders: Map<string, number>
}

const find = (model: Model, owner: number, name: string) =>
  model.domains.find((each) => each.owner === owner && each.name === name)

function mayHave({ domains: all, holders }: Model, { owner, name }: Kept, isAlias: boolean): boolean {
  const isSameDomain = (other: string) => registeredOf(other) === registeredOf(name)
  const had = [
    ...all.filter((each) => each.status === 'active' && isSameDomain(each.name)).map((each) => each.owner),
    ...[...holders].filter(([held]) => isSameDomain(held)).map(([, holder]) => holder),
  ]
  if (had.length > 0) return had.every((each) => each === owner)
  return isAlias || all.every((each) => each.owner === owner || !isSameDomain(each.name))
}

function checked(model: Model, domain: Kept): void {
  const appId = owners[domain.owner]?.apps[domain.app] ?? ''
  if (domain.status === 'active' || !isReaching(domain.name, appId)) return
  const isProven = dns.proofs.get(challengeOf(domain.name))?.has(domain.token) ?? false
  if (!isProven && !mayHave(model, domain, dns.aliases.get(domain.name) === appId)) return
  const rival = model.domains.find((each) => each.status === 'active' && each.name === domain.name)
  if (rival !== undefined) {
    rival.status = 'pending'
    rival.token = `not ${rival.token}`
  }
  domain.status = 'active'
  model.holders.set(domain.name, domain.owner)
}

type Step =
  | {
      readonly kind: 'add'
      readonly owner: number
      readonly app: number
      readonly name: string
      readonly redirect: boolean
    }
  | { readonly kind: 'remove' | 'check' | 'prove' | 'makePrimary'; readonly owner: number; readonly name: string }
  | { readonly kind: 'redirect'; readonly owner: number; readonly name: string; readonly redirect: boolean }
  | { readonly kind: 'point'; readonly name: string; readonly here: boolean }
  | { readonly kind: 'alias'; readonly name: string; readonly owner: number; readonly app: number }
  | { readonly kind: 'unprove'; readonly name: string }
  | { readonly kind: 'deleteApp'; readonly owner: number; readonly app: number }

const owner = fc.integer({ min: 0, max: 1 })
const app = fc.integer({ min: 0, max: 1 })
const name = fc.constantFrom(...names)
const own = <Kind extends string>(kind: Kind) => fc.record({ kind: fc.constant(kind), owner, name })
const added = fc.record({ kind: fc.constant('add'), owner, app, name, redirect: fc.boolean() })
const single = fc.oneof(
  { weight: 4, arbitrary: own('remove') },
  { weight: 4, arbitrary: own('makePrimary') },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('redirect'), owner, name, redirect: fc.boolean() }) },
  { weight: 4, arbitrary: own('check') },
  { weight: 2, arbitrary: own('prove') },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('point'), name, here: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('alias'), name, owner, app }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('unprove'), name }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('deleteApp'), owner, app }) },
)
/** One step, or a domain's whole way to visitors, which single steps would seldom take. */
const steps = fc.oneof(
  { weight: 3, arbitrary: single.map((step) => [step]) },
  {
    weight: 2,
    arbitrary: added.map((step) => [step, { ...step, kind: 'point', here: true }, { ...step, kind: 'check' }]),
  },
  { weight: 2, arbitrary: added.map((step) => [step, { ...step, kind: 'prove' }, { ...step, kind: 'check' }]) },
) as fc.Arbitrary<Step[]>

/** Executes a step, and updates the model. Returns whether the system refused the step, and whether it should have. */
async function carryOut(model: Model, step: Step, known: Map<Kept, Domain>): Promise<readonly [boolean, boolean]> {
  if (step.kind === 'point') {
    if (step.here) dns.reaching.add(step.name)
    else dns.reaching.delete(step.name)
    dns.aliases.delete(step.name)
    return [false, false]
  }
  if (step.kind === 'unprove') {
    dns.proofs.delete(challengeOf(step.name))
    return [false, false]
  }
  const caller = owners[step.owner] as Owner
  if (step.kind === 'alias') {
    dns.reaching.add(step.name)
    dns.aliases.set(step.name, caller.apps[step.app] ?? '')
    return [false, false]
  }
  if (step.kind === 'deleteApp') {
    const appId = caller.apps[step.app] ?? ''
    await domains.query('delete from domains where app_id = $1', [appId])
    model.domains = model.domains.filter((each) => each.owner !== step.owner || each.app !== step.app)
    return [false, false]
  }
  const domain = find(model, step.owner, step.name)
  if (step.kind === 'add') return add(model, step, known)
  if (domain === undefined) return [false, false]
  const shown = known.get(domain) as Domain
  if (step.kind === 'prove') {
    const values = dns.proofs.get(challengeOf(step.name)) ?? new Set()
    dns.proofs.set(challengeOf(step.name), values.add(domain.token))
    return [false, false]
  }
  if (step.kind === 'check') {
    checked(model, domain)
    await domains.query('delete from attempts')
    await domains.check(caller, shown)
    return [false, false]
  }
  if (step.kind === 'remove') {
    await domains.remove(caller, shown)
    model.domains.splice(model.domains.indexOf(domain), 1)
    return [false, false]
  }
  const before = await domains.get(caller, shown)
  if (step.kind !== 'redirect') {
    const refused = await isRefused(domains.update(caller, shown, { primary: true }))
    if (!refused) domain.redirect = false
    return [refused, domain.status === 'pending' || isWildcard(domain.name)]
  }
  const refused = await isRefused(domains.update(caller, shown, { redirect: step.redirect }))
  if (!refused) domain.redirect = step.redirect
  return [refused, step.redirect && (isWildcard(domain.name) || before.primary)]
}

async function add(
  model: Model,
  step: Extract<Step, { kind: 'add' }>,
  known: Map<Kept, Domain>,
): Promise<readonly [boolean, boolean]> {
  const caller = owners[step.owner] as Owner
  const isWrong = find(model, step.owner, step.name) !== undefined || (step.redirect && isWildcard(step.name))
  try {
    const { name, redirect } = step
    const made = await domains.add(caller, caller.apps[step.app] ?? '', { name, redirect })
    const kept: Kept = { ...step, status: 'pending', token: '' }
    model.domains.push(kept)
    known.set(kept, made)
    return [false, isWrong]
  } catch {
    return [true, isWrong]
  }
}

const isRefused = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => false,
    () => true,
  )

interface Row {
  readonly id: string
  readonly app_id: string
  readonly name: string
  readonly status: string
  readonly token: string
  readonly is_primary: boolean
  readonly redirect: boolean
}

/** Compares the rows with the model, and the primary domains and redirects with their rules. */
async function compare(model: Model, known: Map<Kept, Domain>): Promise<void> {
  const rows = await domains.query<Row>('select * from domains order by id')
  const byId = new Map(rows.map((row) => [row.id, row]))
  expect(rows.length).toBe(model.domains.length)
  for (const kept of model.domains) {
    const row = byId.get(known.get(kept)?.id ?? '')
    expect({ ...kept, status: row?.status, redirect: row?.redirect }).toEqual(kept)
    // Its old record must not restore the name.
    expect(kept.token).not.toBe(`not ${row?.token}`)
    kept.token = row?.token ?? ''
  }
  const served = await servedDomains(domains.database)
  expect(served.map(({ id }) => id).sort()).toEqual(
    rows.filter(({ status }) => status !== 'pending').map(({ id }) => id),
  )
  for (const ofApp of Map.groupBy(served, ({ appId }) => appId).values()) {
    const main = ofApp.filter(({ isPrimary }) => isPrimary)
    const candidates = ofApp.filter((each) => !isWildcard(each.name))
    expect(main.length).toBe(candidates.length === 0 ? 0 : 1)
    expect(ofApp[0]?.isPrimary).toBe(candidates.length > 0)
    for (const { id, isPrimary, redirectTo } of ofApp) {
      const wants = byId.get(id)?.redirect === true
      expect(redirectTo).toBe(wants && !isPrimary ? main[0]?.name : null)
      // A redirect is not primary while another domain could answer.
      if (isPrimary && wants) expect(candidates.every((each) => byId.get(each.id)?.redirect)).toBe(true)
    }
  }
}

it('a name is served for the account that was first or has proved it, whatever several accounts do', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { minLength: 20, maxLength: 60, size: 'max' }), async (script) => {
      await domains.query('delete from domains')
      await domains.query('delete from domain_holders')
      await domains.query('delete from attempts')
      owners = await Promise.all([0, 1].map(() => domains.owner(2)))
      dns.reaching.clear()
      dns.aliases.clear()
      dns.proofs.clear()
      const model: Model = { domains: [], holders: new Map() }
      const known = new Map<Kept, Domain>()
      for (const step of script.flat()) {
        const [refused, shouldBe] = await carryOut(model, step, known)
        expect([step, refused]).toEqual([step, shouldBe])
        await compare(model, known)
      }
    }),
    { numRuns: 20 },
  )
})
