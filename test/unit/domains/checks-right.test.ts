import { describe, expect, it } from 'vitest'
import {
  challengeTarget,
  checkedWorld,
  identity,
  ours,
  serverHost,
  target,
  theirs,
} from '../../harness/domains/checks.ts'

const addresses = `A ${ours.a}`
const wild = '*.example.com'

/** Correct set-ups, which must give no problem: the zone and the name. */
const right: readonly (readonly [setUp: string, zone: string, name: string])[] = [
  ['a CNAME of the app', `www CNAME ${target}`, 'www.example.com'],
  ['a CNAME of the server', `www CNAME ${serverHost}`, 'www.example.com'],
  ['a CNAME in capital letters', `www CNAME ${target.toUpperCase()}`, 'www.example.com'],
  ['the address', `www ${addresses}`, 'www.example.com'],
  ['the address of an apex', `@ ${addresses}`, 'example.com'],
  ['several addresses of ours', `@ ${addresses}\n@ A ${ours.b}`, 'example.com'],
  ['one of several addresses of ours', `@ A ${ours.b}`, 'example.com'],
  ['A and AAAA of ours', `@ ${addresses}\n@ AAAA ${ours.six}`, 'example.com'],
  ['an AAAA written in full', `@ ${addresses}\n@ AAAA 2600:3C01:0000:0:0:0:0:0010`, 'example.com'],
  ['only AAAA', `@ AAAA ${ours.six}`, 'example.com'],
  [
    'CNAME records that end at our name',
    `www CNAME a.example.com\na CNAME b.example.com\nb CNAME ${target}`,
    'www.example.com',
  ],
  ['CNAME records that end at our address', `www CNAME a.example.com\na ${addresses}`, 'www.example.com'],
  ['a record of a wildcard', `* CNAME ${target}`, 'shop.example.com'],
  ['a wildcard', `* CNAME ${target}`, wild],
  ['a wildcard with addresses', `* ${addresses}\nmail A 1.2.3.4`, wild],
  ["a record beside another server's wildcard", `* A ${theirs.a}\nwww ${addresses}`, 'www.example.com'],
  [
    'other records of the domain',
    `www ${addresses}\nwww MX mail.example.com\nwww TXT v=spf1\n@ A ${theirs.a}`,
    'www.example.com',
  ],
  ['a deep name', `a.b.c.d ${addresses}`, 'a.b.c.d.example.com'],
  ['our authority in CAA', `www ${addresses}\n@ CAA 0 issue "${identity}"`, 'www.example.com'],
  ['our authority in CAA, in capital letters', `www ${addresses}\n@ CAA 0 ISSUE "LetsEncrypt.org"`, 'www.example.com'],
  [
    "CAA of the name, which precedes the domain's CAA",
    `www ${addresses}\nwww CAA 0 issue "${identity}"\n@ CAA 0 issue ";"`,
    'www.example.com',
  ],
  [
    'CAA of two authorities',
    `www ${addresses}\n@ CAA 0 issue "other.example"\n@ CAA 0 issue "${identity}"`,
    'www.example.com',
  ],
  ['CAA without an issuer', `www ${addresses}\n@ CAA 0 iodef "mailto:me@example.com"`, 'www.example.com'],
  ['CAA that forbids only wildcards', `www ${addresses}\n@ CAA 0 issuewild ";"`, 'www.example.com'],
  ['CAA for wildcards', `* ${addresses}\n@ CAA 0 issue ";"\n@ CAA 0 issuewild "${identity}"`, wild],
]

describe('a correct set-up', () => {
  it.each(right)('gives no problem: %s', async (_, zone, name) => {
    await using world = await checkedWorld({ 'example.com': zone })
    await world.dns.zone(
      'fairlead.dev',
      `panel A ${ours.a}\npanel A ${ours.b}\npanel AAAA ${ours.six}\n*.apps A ${ours.a}`,
    )
    expect(await world.check(name)).toMatchObject({ ok: true, reaches: true, problems: [] })
  })

  it('gives no problem where servers give another part of the addresses each time', async () => {
    await using world = await checkedWorld({ 'example.com': `@ A ${ours.b}\nwww CNAME ${target}` })
    let round = 0
    const rotated = (name: string) => ({
      get answers() {
        round += 1
        return [{ name, type: 'A', ttl: 0, data: round % 2 === 0 ? ours.a : ours.b } as const]
      },
    })
    world.dns.recursiveAnswers(serverHost, 'A', rotated(serverHost))
    world.dns.recursiveAnswers(target, 'A', rotated(target))
    for (let turn = 0; turn < 4; turn += 1) {
      expect(await world.codes('example.com')).toEqual([])
      expect(await world.codes('www.example.com')).toEqual([])
    }
  })

  it('gives no problem where the server changes the letter case of the name', async () => {
    await using world = await checkedWorld({ 'example.com': '' })
    world.dns.recursiveAnswers('www.example.com', 'A', {
      questions: [{ name: 'wWw.ExAmPlE.CoM', type: 'A' }],
      answers: [
        { name: 'wWw.ExAmPlE.CoM', type: 'CNAME', ttl: 60, data: target.toUpperCase() },
        { name: target.toUpperCase(), type: 'A', ttl: 60, data: ours.a },
      ],
    })
    await world.dns.zone('example.com', `www CNAME ${target}`)
    expect(await world.codes('www.example.com')).toEqual([])
  })

  it('gives no problem in a private network, with private addresses', async () => {
    await using world = await checkedWorld(
      { 'example.com': 'www A 10.0.0.5' },
      { answers: { '10.0.0.5': { outcome: 'reached' } } },
    )
    await world.dns.zone('fairlead.dev', 'panel A 10.0.0.5')
    expect(await world.codes('www.example.com')).toEqual([])
  })

  it('gives no problem where names have other addresses inside the private network than outside', async () => {
    await using world = await checkedWorld(
      { 'example.com': `www A ${ours.a}` },
      { answers: { '10.0.0.5': { outcome: 'reached' } } },
    )
    for (const name of ['www.example.com', serverHost]) {
      world.dns.recursiveAnswers(name, 'A', { answers: [{ name, type: 'A', ttl: 60, data: '10.0.0.5' }] })
    }
    expect(await world.codes('www.example.com')).toEqual([])
  })

  it('gives no problem where this machine may ask no authoritative server', async () => {
    await using world = await checkedWorld({ 'example.com': `www CNAME ${target}` })
    await world.dns.zone('example.com', `www CNAME ${target}`, [
      { name: 'ns1.example.com', address: world.dns.addressOf('example.com', 0) },
    ])
    world.dns.keep('www.example.com', 'A', 'AAAA', 'CAA')
    for (const name of ['example.com', 'com']) world.dns.keep(name, 'CAA', 'NS', 'SOA')
    world.dns.behave('example.com', 0, 'silent')
    expect(await world.codes('www.example.com')).toEqual([])
  })

  it('needs neither requests nor an authority', async () => {
    const zone = { 'example.com': `www CNAME ${target}\n@ CAA 0 issue ";"\nmy A ${theirs.a}` }
    await using world = await checkedWorld(zone, { probe: null, authority: null })
    expect(await world.codes('www.example.com')).toEqual([])
    expect(await world.codes('my.example.com')).toEqual(['wrong_address'])
    expect(await world.codes('*.example.com', { challengeTarget })).toEqual(['name_missing'])
    await using plain = await checkedWorld(zone, { authority: { identities: [], accountUri: null } })
    expect(await plain.codes('www.example.com')).toEqual([])
  })
})
