import { describe, expect, it } from 'vitest'
import { checkedWorld, ours, publicOnly, target, theirs } from '../../harness/domains/checks.ts'

const name = 'www.example.com'
const right = `www CNAME ${target}`
const both = [0, 1]

describe('the zone of a domain', () => {
  it('that is not registered is named, even without a name in it', async () => {
    await using world = await checkedWorld({ 'example.com': '' })
    expect(await world.codes('www.unregistered.com')).toEqual(['domain_unregistered'])
    expect(await world.codes('unregistered.com')).toEqual(['domain_unregistered'])
    expect(await world.codes('www.example.com')).toEqual(['name_missing'])
    const [problem] = (await world.check('www.unregistered.com')).problems
    expect(problem?.message).toMatch(/^unregistered\.com is not registered/)
  })

  it('whose servers are all silent is named with its servers', async () => {
    await using world = await checkedWorld({ 'example.com': right })
    for (const server of both) world.dns.behave('example.com', server, 'silent')
    const { problems } = await world.check(name)
    expect(problems.map(({ code }) => code)).toEqual(['name_servers_silent'])
    expect(problems[0]?.message).toMatch(/ns1\.example\.com \(.*\) and ns2\.example\.com/)
  })

  it.each(['refused', 'lame', 'servfail'] as const)(
    'whose servers do not serve it is a lame delegation: %s',
    async (behaviour) => {
      await using world = await checkedWorld({ 'example.com': right })
      for (const server of both) world.dns.behave('example.com', server, behaviour)
      expect(await world.codes(name)).toEqual(['lame_delegation'])
    },
  )

  it('with one failing server is correct, with a warning', async () => {
    for (const [behaviour, code] of [
      ['silent', 'name_servers_silent'],
      ['refused', 'lame_delegation'],
    ] as const) {
      await using world = await checkedWorld({ 'example.com': right })
      world.dns.behave('example.com', 1, behaviour)
      expect(await world.codes(name)).toEqual([`${code} (warning)`])
      expect((await world.check(name)).ok).toBe(true)
    }
  })

  it('whose servers have no addresses is named with its servers', async () => {
    await using world = await checkedWorld({ 'example.com': right })
    const nowhere = { rcode: 2 } as const
    world.dns.recursiveAnswers(name, 'A', nowhere)
    world.dns.recursiveAnswers(name, 'AAAA', nowhere)
    world.dns.recursiveAnswers('example.com', 'NS', {
      answers: [{ name: 'example.com', type: 'NS', ttl: 60, data: 'ns.nowhere.com' }],
    })
    expect(await world.codes(name)).toEqual(['name_servers_unresolved'])
  })

  it('whose servers have private addresses is reported only when it cannot be read', async () => {
    await using world = await checkedWorld({ 'example.com': right }, {}, publicOnly)
    expect(await world.codes(name)).toEqual([])
    for (const type of ['A', 'AAAA']) world.dns.recursiveAnswers(name, type, { rcode: 2 })
    const { problems } = await world.check(name)
    expect(problems.map(({ code }) => code)).toEqual(['name_servers_private'])
    expect(problems[0]?.message).toMatch(
      /^The name servers ns1\.example\.com and ns2\.example\.com of example\.com have no public/,
    )
    expect(world.dns.questions.every((each) => each.startsWith('recursive'))).toBe(true)
  })

  it('with wrong signatures differs from a zone with failing servers', async () => {
    await using world = await checkedWorld({ 'example.com': right })
    world.dns.breakDnssec('example.com')
    const { problems } = await world.check(name)
    expect(problems.map(({ code }) => code)).toEqual(['dnssec_broken'])
    expect(problems[0]?.message).toContain('DS record')
  })

  it('that cannot be read although its servers answer is a failure without details', async () => {
    await using world = await checkedWorld({ 'example.com': right })
    for (const type of ['A', 'AAAA']) world.dns.recursiveAnswers(name, type, { rcode: 2 })
    expect(await world.codes(name)).toEqual(['server_failure'])
    await using behind = await checkedWorld({ 'example.com': 'www CNAME x.example.net', 'example.net': 'x A 1.1.1.1' })
    for (const server of both) behind.dns.behave('example.net', server, 'servfail')
    const { problems } = await behind.check(name)
    expect(problems.map(({ code }) => code)).toEqual(['server_failure'])
  })

  it('whose servers disagree is named, with each server’s answer', async () => {
    await using world = await checkedWorld({ 'example.com': right })
    world.dns.zoneAt('example.com', 1, `www A ${theirs.a}`)
    const { problems } = await world.check(name)
    expect(problems).toMatchObject([{ code: 'name_servers_disagree', severity: 'error' }])
    expect(problems[0]?.message).toContain(`ns1.example.com lead www.example.com here, ns2.example.com to ${theirs.a}`)
    world.dns.zoneAt('example.com', 0, `www A ${theirs.a}`)
    world.dns.zoneAt('example.com', 1, right)
    expect(await world.codes(name)).toEqual(['name_servers_disagree'])
    world.dns.zoneAt('example.com', 0, '')
    expect(await world.codes(name)).toEqual(['name_servers_disagree'])
  })

  it('below another zone, with failing servers, is found through the parent zone', async () => {
    await using world = await checkedWorld({ 'example.com': '', 'shop.example.com': `www A ${ours.a}` })
    for (const server of both) world.dns.behave('shop.example.com', server, 'refused')
    const { problems } = await world.check('www.shop.example.com')
    expect(problems.map(({ code }) => code)).toEqual(['lame_delegation'])
    expect(problems[0]?.message).toContain('shop.example.com')
  })
})

describe('an outdated answer of the recursive server', () => {
  const types = ['A', 'AAAA'] as const

  it.each([
    ['another address', `www 7200 A ${theirs.a}`, '2 hours'],
    ['another CNAME', `www 600 CNAME old.example.com\nold 60 A ${theirs.a}`, '10 minutes'],
    ['no name', '', '10 minutes'],
    ['no address', 'www TXT hello', '10 minutes'],
  ])('is reported with its remaining time: %s', async (_, before, time) => {
    await using world = await checkedWorld({ 'example.com': before })
    world.dns.keep(name, ...types)
    await world.dns.zone('example.com', right)
    const { ok, problems } = await world.check(name)
    expect(problems).toMatchObject([{ code: 'resolver_stale', severity: 'warning' }])
    expect(problems[0]?.message).toContain(`for up to ${time}.`)
    expect(ok).toBe(true)
  })

  it('is no excuse for wrong authoritative servers', async () => {
    await using world = await checkedWorld({ 'example.com': `www A ${theirs.a}` })
    world.dns.keep(name, ...types)
    await world.dns.zone('example.com', `www A ${theirs.b}`)
    expect(await world.codes(name)).toEqual(['wrong_address'])
  })

  it('is not reported where the signatures are wrong', async () => {
    await using world = await checkedWorld({ 'example.com': `www A ${ours.a}` })
    world.dns.breakDnssec('example.com')
    expect(await world.codes(name)).toEqual(['dnssec_broken'])
  })
})
