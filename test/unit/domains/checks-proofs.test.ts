import { describe, expect, it } from 'vitest'
import { caaRefusal } from '../../../server/src/features/domains/checks/caa.ts'
import { challengeTarget, checkedWorld, identity, ours, target, theirs, token } from '../../harness/domains/checks.ts'

const name = 'www.example.com'
const right = `www CNAME ${target}\n* CNAME ${target}`
const at = '_fairlead-challenge.www'

describe('the TXT record of an owner', () => {
  it.each([
    ['missing', '', ['txt_missing']],
    ['another value', `${at} TXT something`, ['txt_wrong']],
    ['part of the value', `${at} TXT ${token.slice(1)}`, ['txt_wrong']],
    ['several others', `${at} TXT one\n${at} TXT two`, ['txt_several']],
    ['right', `${at} TXT ${token}`, []],
    ['right in several strings', `${at} TXT ${token.slice(0, 10)} | ${token.slice(10)}`, []],
    ['right beside others', `${at} TXT one\n${at} TXT ${token}`, []],
    ['right with quotes and spaces around it', `${at} TXT " ${token}"`, []],
    ['right behind a CNAME record', `${at} CNAME proof.example.com\nproof TXT ${token}`, []],
  ])('is %s', async (_, records, codes) => {
    await using world = await checkedWorld({ 'example.com': `${right}\n${records}` })
    const result = await world.check(name, { token })
    expect(result.problems.map(({ code }) => code)).toEqual(codes)
    expect(result).toMatchObject({ ok: codes.length === 0, isProven: codes.length === 0, reaches: true })
    expect(result.records).toContainEqual({
      ...{ type: 'TXT', name: '_fairlead-challenge.www.example.com', value: token, purpose: 'ownership' },
    })
  })

  it('belongs to the domain of a wildcard', async () => {
    await using world = await checkedWorld({ 'example.com': `${right}\n_fairlead-challenge TXT ${token}` })
    expect(await world.check('*.example.com', { token })).toMatchObject({ isProven: true, problems: [] })
  })

  it('is read again when the DNS server has cached its absence', async () => {
    await using world = await checkedWorld({ 'example.com': right })
    world.dns.keep('_fairlead-challenge.www.example.com', 'TXT')
    await world.dns.zone('example.com', `${right}\n${at} TXT ${token}`)
    expect(await world.check(name, { token })).toMatchObject({ isProven: true, problems: [] })
  })

  it('is reported when it is unreadable, and shown in one line when it has unusual characters', async () => {
    await using world = await checkedWorld({ 'example.com': `${right}\n${at} TXT x\u0000\u202e\nback` })
    const [strange] = (await world.check(name, { token })).problems
    expect(strange?.message).toMatch(/^[ -~“”…]+$/)
    world.dns.keep(name, 'A', 'AAAA')
    world.dns.recursiveAnswers('_fairlead-challenge.www.example.com', 'TXT', { rcode: 2 })
    for (const server of [0, 1]) world.dns.behave('example.com', server, 'refused')
    for (const each of [name, 'example.com']) world.dns.recursiveAnswers(each, 'NS', { rcode: 0 })
    expect(await world.codes(name, { token })).toContain('txt_unreadable')
  })

  it('is not quoted when it belongs to another name, which may be internal to the DNS server', async () => {
    const zones = {
      'example.com': `${right}\n${at} CNAME inner.example.net`,
      'example.net': 'inner TXT internal-secret\ninner TXT internal-other',
    }
    await using world = await checkedWorld(zones, {}, () => false)
    const { problems } = await world.check(name, { token })
    expect(problems.map(({ code }) => code)).toEqual(['txt_wrong'])
    expect(problems[0]?.message).toContain('is a CNAME of')
    expect(problems[0]?.message).not.toContain('internal')
  })

  it('is not needed beside a CNAME record that leads to the app', async () => {
    await using world = await checkedWorld({ 'example.com': `${right}\nplain A ${ours.a}` })
    const more = { token, isAliasProof: true }
    expect(await world.check(name, more)).toMatchObject({ ok: true, isProven: false, leadsToApp: true })
    expect(await world.codes('plain.example.com', more)).toEqual(['txt_missing'])
    // Another app's address does not lead here, whatever its addresses are, unless one account has both apps.
    const other = { target: 'evil-y.apps.fairlead.dev' }
    expect(await world.codes(name, other)).toEqual(['cname_elsewhere'])
    expect(await world.codes(name, { ...other, ofAccount: [target] })).toEqual([])
  })

  it.each([
    `*.apps A ${ours.a}`,
    '*.apps CNAME panel.fairlead.dev',
    '*.apps CNAME balancer.fairlead.dev\nbalancer CNAME panel.fairlead.dev',
    `${target.split('.')[0]}.apps CNAME panel.fairlead.dev\n*.apps A ${ours.a}`,
  ])('comes from the app that a CNAME record names first, whatever records the operator has: %j', async (records) => {
    await using world = await checkedWorld({ 'example.com': right })
    await world.dns.zone('fairlead.dev', `panel A ${ours.a}\n${records}`)
    expect(await world.codes(name, {})).toEqual([])
    expect(await world.codes(name, { target: 'evil-y.apps.fairlead.dev' })).toEqual(['cname_elsewhere'])
  })

  it('is empty when there is nothing to prove', async () => {
    await using world = await checkedWorld({ 'example.com': right })
    expect(await world.check(name)).toMatchObject({ isProven: false, problems: [] })
    expect(world.dns.questions.some((each) => each.includes('_fairlead-challenge'))).toBe(false)
  })
})

describe('the CNAME of _acme-challenge of a wildcard', () => {
  const wild = '*.example.com'
  it.each([
    ['missing', '', ['challenge_missing']],
    ['a TXT record instead', '_acme-challenge TXT abc', ['challenge_missing']],
    ['a record with another name', '_acme-challenge CNAME other.example.net', ['challenge_elsewhere']],
    ['right', `_acme-challenge CNAME ${challengeTarget}`, []],
    ['right through another name', `_acme-challenge CNAME x.example.com\nx CNAME ${challengeTarget}`, []],
  ])('is %s', async (_, records, codes) => {
    await using world = await checkedWorld({ 'example.com': `${right}\n${records}` })
    const result = await world.check(wild, { challengeTarget })
    expect(result.problems.map(({ code }) => code)).toEqual(codes)
    expect(result).toMatchObject({ reaches: true, ok: codes.length === 0 })
    expect(result.records).toContainEqual({
      ...{ type: 'CNAME', name: '_acme-challenge.example.com', value: challengeTarget, purpose: 'certificate' },
    })
    expect(await world.codes(name, { challengeTarget })).toEqual([])
  })
})

describe('the CAA records of a domain', () => {
  it('count as forbidding when they are unreadable', async () => {
    await using world = await checkedWorld({ 'example.com': right })
    for (const answer of [{ rcode: 2 } as const, undefined]) {
      world.dns.recursiveAnswers('example.com', 'CAA', answer)
      const { problems, ok, reaches } = await world.check(name)
      expect(problems.map(({ code }) => code)).toEqual(['caa_unreadable'])
      expect({ ok, reaches }).toEqual({ ok: false, reaches: true })
      expect(problems[0]?.message).toContain('CAA records of example.com')
    }
  })

  it('are reported with the record to add', async () => {
    await using world = await checkedWorld({
      'example.com': `${right}\n@ CAA 0 issue "digicert.com; x=1"\n@ CAA 0 issuewild ";"`,
    })
    const message = async (of: string) => (await world.check(of)).problems[0]?.message
    expect(await message(name)).toBe(
      `The CAA records of example.com allow only digicert.com to issue certificates for www.example.com. Add the CAA record 0 issue "${identity}" at example.com.`,
    )
    expect(await message('*.example.com')).toBe(
      `The CAA records of example.com allow nobody to issue wildcard certificates for example.com. Add the CAA record 0 issuewild "${identity}" at example.com.`,
    )
  })

  it('of the name behind a CNAME count for the name', async () => {
    await using world = await checkedWorld({
      'example.com': `www CNAME x.example.net\n@ CAA 0 issue "${identity}"`,
      'example.net': `x A ${ours.a}\nx CAA 0 issue "internal-ca.test"`,
    })
    const { problems } = await world.check(name)
    expect(problems.map(({ code }) => code)).toEqual(['caa_forbids'])
    expect(problems[0]?.message).not.toContain('internal-ca')
  })

  it('come from the closest parent that has any', async () => {
    const deep = `a.b.c.d.e.f.g.h A ${ours.a}\nf.g.h CAA 0 issue "${identity}"\n@ CAA 0 issue ";"`
    await using world = await checkedWorld({ 'example.com': deep })
    expect(await world.codes('a.b.c.d.e.f.g.h.example.com')).toEqual([])
  })

  const account = 'https://acme.example/acct/1'
  const caa = (value: string, tag = 'issue', isCritical = false) =>
    ({ type: 'CAA', name: 'example.com', ttl: 60, tag, value, isCritical }) as const
  const single = { isWildcard: false, method: 'http-01' } as const
  const wildcard = { isWildcard: true, method: 'dns-01' } as const

  it.each([
    ['no records', [], single, null],
    ['our account', [caa(`${identity}; accounturi=${account}`)], single, null],
    ['another account', [caa(`${identity}; accounturi=https://acme.example/acct/2`)], single, 'account'],
    ['two accounts', [caa(`${identity}; accounturi=${account}; accounturi=${account}`)], single, 'account'],
    [
      'another account beside ours',
      [caa(`${identity}; accounturi=x`), caa(`${identity}; accounturi=${account}`)],
      single,
      null,
    ],
    ['our way of proof', [caa(`${identity}; validationmethods=dns-01,http-01`)], single, null],
    ['another way of proof', [caa(`${identity};validationmethods=dns-01`)], single, 'method'],
    ['our way of proof for wildcards', [caa(`${identity}; validationmethods=dns-01`)], wildcard, null],
    [
      'our account with another way of proof',
      [caa(`${identity}; accounturi=${account}; validationmethods=tls-alpn-01`)],
      single,
      'method',
    ],
    ['unknown parameters', [caa(`${identity}; policy=ev; x=`)], single, null],
    ['malformed parameters', [caa(`${identity}; %%%`)], single, 'other_authorities'],
    ['two names', [caa(`${identity} other.example`)], single, 'other_authorities'],
    ['a name that ends with ours', [caa(`not${identity}`)], single, 'other_authorities'],
    ['spaces', [caa(`  ${identity}  ;  `)], single, null],
    ['an unknown critical property', [caa('x', 'tbs', true), caa(identity)], single, 'critical'],
    ['an unknown property', [caa('x', 'tbs')], single, null],
    ['a known critical property', [caa(identity, 'issue', true)], single, null],
    ['issuewild for a single name', [caa(';', 'issuewild'), caa(identity)], single, null],
    [
      'issuewild before issue for wildcards',
      [caa('other.example', 'issuewild'), caa(identity)],
      wildcard,
      'other_authorities',
    ],
    ['issue for wildcards without issuewild', [caa(identity)], wildcard, null],
  ] as const)('follow RFC 8659 and RFC 8657: %s', (_, records, proof, kind) => {
    expect(caaRefusal(records, { identities: [identity], accountUri: account }, proof)?.kind ?? null).toBe(kind)
  })

  it('may name an account that is not known yet', () => {
    const records = [caa(`${identity}; accounturi=${account}`)]
    expect(caaRefusal(records, { identities: [identity], accountUri: null }, single)).toBeNull()
  })

  it('that name another account, another proof or unknown parameters are reported', async () => {
    const zone = (value: string) => ({ 'example.com': `${right}\n@ CAA ${value}` })
    for (const [value, text] of [
      [`0 issue "${identity}; accounturi=https://acme.example/acct/2"`, 'ours is https://acme.example/acct/1'],
      [`0 issue "${identity}; validationmethods=dns-01"`, 'proved by http-01'],
      ['128 tbs "x"', 'has the property tbs'],
    ] as const) {
      await using world = await checkedWorld(zone(value), {
        authority: { identities: [identity], accountUri: account },
      })
      const { problems } = await world.check(name)
      expect(problems).toMatchObject([{ code: 'caa_forbids', message: expect.stringContaining(text) }])
    }
  })
})

describe('several problems', () => {
  it('are all reported, the most useful first', async () => {
    await using world = await checkedWorld({ 'example.com': `www A ${theirs.a}\nwww A 127.0.0.1\n@ CAA 0 issue ";"` })
    world.dns.behave('example.com', 1, 'refused')
    expect(await world.codes(name, { token })).toEqual([
      ...['loopback_address', 'wrong_address', 'txt_missing', 'caa_forbids', 'lame_delegation (warning)'],
    ])
  })
})
