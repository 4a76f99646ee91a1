import { describe, expect, it } from 'vitest'
import type { Resolver } from '../../../server/src/platform/dns/resolver.ts'
import { DnsError } from '../../../server/src/platform/dns/transport.ts'
import {
  checkedWorld,
  identity,
  other,
  ours,
  serverHost,
  target,
  theirs,
  unreachable,
} from '../../harness/domains/checks.ts'

/** An alias to the app, the most common set-up. */
const right = `www CNAME ${target}`
const wild = '*.example.com'

/** Broken set-ups of names and addresses: the zone, the name, and the codes of the problems. */
const broken: readonly (readonly [setUp: string, zone: string, name: string, codes: readonly string[]])[] = [
  ['a name that does not exist', 'mail A 45.33.32.10', 'www.example.com', ['name_missing']],
  ['a name without an address', 'www TXT hello', 'www.example.com', ['no_address']],
  ['an apex without an address', 'www A 45.33.32.10', 'example.com', ['no_address']],
  ['the address of another server', `www A ${theirs.a}`, 'www.example.com', ['wrong_address']],
  [
    'some addresses of another server',
    `www A ${ours.a}\nwww A ${theirs.a}`,
    'www.example.com',
    ['some_addresses_wrong'],
  ],
  ['a wrong AAAA beside a right A', `www A ${ours.a}\nwww AAAA ${theirs.six}`, 'www.example.com', ['ipv6_wrong']],
  ['only AAAA', `www AAAA ${theirs.six}`, 'www.example.com', ['ipv6_only']],
  ['a private address', 'www A 192.168.178.20', 'www.example.com', ['private_address']],
  ['a private address beside the right one', `www A 10.1.2.3\nwww A ${ours.a}`, 'www.example.com', ['private_address']],
  ['a unique local address', `www A ${ours.a}\nwww AAAA fd00::1`, 'www.example.com', ['private_address']],
  ['a shared address of a provider', 'www A 100.64.3.2', 'www.example.com', ['private_address']],
  ['a loopback address', 'www A 127.0.0.1', 'www.example.com', ['loopback_address']],
  ['the unspecified address', `www A 0.0.0.0\nwww AAAA ::`, 'www.example.com', ['loopback_address']],
  ['a CNAME of a name that does not exist', 'www CNAME gone.example.com', 'www.example.com', ['cname_dangling']],
  ['a CNAME with a typing error', `www CNAME ${target}x.example.com`, 'www.example.com', ['cname_dangling']],
  [
    'a CNAME of a name without an address',
    'www CNAME mail.example.com\nmail MX mail.example.com',
    'www.example.com',
    ['no_address'],
  ],
  ['CNAME records in a circle', 'www CNAME a.example.com\na CNAME www.example.com', 'www.example.com', ['cname_loop']],
  ['a CNAME that points to itself', 'www CNAME www.example.com', 'www.example.com', ['cname_loop']],
  [
    'more CNAME records than resolvers follow',
    `${Array.from({ length: 12 }, (_, index) => `c${index} CNAME c${index + 1}.example.com`).join('\n')}\nc12 A ${ours.a}\nwww CNAME c0.example.com`,
    'www.example.com',
    ['cname_too_long'],
  ],
  ['a CNAME of another server', `www CNAME old.example.com\nold A ${theirs.a}`, 'www.example.com', ['cname_elsewhere']],
  [
    'a CNAME beside other records of an apex',
    `@ CNAME old.example.com\nold A ${theirs.a}`,
    'example.com',
    ['cname_conflict', 'cname_elsewhere'],
  ],
  ['an apex CNAME that leads here', `@ CNAME ${target}`, 'example.com', ['cname_conflict (warning)']],
  [
    'a CNAME beside a TXT record',
    `www CNAME ${target}\nwww TXT hello`,
    'www.example.com',
    ['cname_conflict (warning)'],
  ],
  [
    'a CAA record of another authority',
    `${right}\nwww2 A ${ours.a}\n@ CAA 0 issue "other.example"`,
    'www2.example.com',
    ['caa_forbids'],
  ],
  [
    'a CAA record that forbids all authorities',
    `www A ${ours.a}\n@ CAA 0 issue ";"`,
    'www.example.com',
    ['caa_forbids'],
  ],
  [
    'a wildcard that CAA records forbid',
    `* CNAME ${target}\n@ CAA 0 issue "${identity}"\n@ CAA 0 issuewild ";"`,
    wild,
    ['caa_forbids_wildcards'],
  ],
  ['a wildcard without an address', `www A ${ours.a}`, wild, ['name_missing']],
  ['a wildcard of another server', `* A ${theirs.a}`, wild, ['wrong_address']],
]

describe('a broken set-up', () => {
  it.each(broken)('is named: %s', async (_, zone, name, codes) => {
    await using world = await checkedWorld({ 'example.com': zone })
    expect(await world.codes(name)).toEqual(codes)
  })
})

describe('a message', () => {
  it('says what was found and what to set, with the values', async () => {
    await using world = await checkedWorld({
      'example.com': `www A ${theirs.a}\n@ A ${theirs.a}\nmy CNAME gone.example.com`,
    })
    const messageOf = async (name: string) => (await world.check(name)).problems[0]?.message
    expect(await messageOf('www.example.com')).toBe(
      `www.example.com leads to ${theirs.a}, which is not this server (${ours.a}). Set for www.example.com: CNAME ${target} (or A ${ours.a}).`,
    )
    expect(await messageOf('example.com')).toBe(
      `example.com leads to ${theirs.a}, which is not this server (${ours.a}). Set for example.com: A ${ours.a}.`,
    )
    expect(await messageOf('my.example.com')).toBe(
      `my.example.com is a CNAME of gone.example.com, and that name does not exist. Set for my.example.com: CNAME ${target} (or A ${ours.a}).`,
    )
  })

  it('names no private address, which a stranger may have asked for by a name of the operator', async () => {
    await using world = await checkedWorld({
      'example.com': 'www CNAME db.corp.example.com\ndb.corp A 10.20.30.40\nx AAAA fd12::5',
    })
    for (const name of ['www.example.com', 'x.example.com']) {
      const text = JSON.stringify(await world.check(name))
      expect(text).not.toMatch(/10\.20\.30\.40|fd12::5/)
      expect(text).toMatch(/an address in (10\.0\.0\.0\/8|fc00::\/7)/)
    }
  })

  it('has one line of plain characters, however long and unusual the records are', async () => {
    const long = 'x'.repeat(60)
    const zone = Array.from({ length: 30 }, (_, index) => `www A 93.184.${index}.1`).join('\n')
    await using world = await checkedWorld({ 'example.com': `${zone}\ncn CNAME ${long}.${long}.${long}.example.com` })
    for (const name of ['www.example.com', 'cn.example.com']) {
      const [problem] = (await world.check(name)).problems
      expect(problem?.message).toMatch(/^[ -~“”…]{20,600}$/)
    }
  })
})

describe('the records to set', () => {
  it('are a CNAME below a domain and for a wildcard, and addresses for the domain itself', async () => {
    await using world = await checkedWorld({ 'example.com': '' })
    await world.dns.zone('fairlead.dev', `panel A ${ours.a}\npanel A ${ours.b}\npanel AAAA ${ours.six}`)
    expect((await world.check('www.example.com')).records).toEqual([
      { type: 'CNAME', name: 'www.example.com', value: target, purpose: 'traffic' },
    ])
    expect((await world.check('*.example.com')).records).toMatchObject([
      { type: 'CNAME', name: '*.example.com', value: target },
    ])
    expect((await world.check('example.com')).records).toEqual(
      [
        { type: 'AAAA', name: 'example.com', value: ours.six, purpose: 'traffic' },
        { type: 'A', name: 'example.com', value: ours.a, purpose: 'traffic' },
        { type: 'A', name: 'example.com', value: ours.b, purpose: 'traffic' },
      ].toSorted((one, other) => (one.value < other.value ? -1 : 1)),
    )
  })
})

describe('a request to the addresses of a name', () => {
  const zone = { 'example.com': `www A ${theirs.a}\nmy A ${ours.a}\nprivate A 10.0.0.1\n* CNAME ${target}` }

  it('that arrives through a proxy is a warning', async () => {
    await using world = await checkedWorld(zone, { answers: { [theirs.a]: { outcome: 'reached' } } })
    const result = await world.check('www.example.com')
    expect(result).toMatchObject({ ok: true, reaches: true, problems: [{ code: 'proxied', severity: 'warning' }] })
  })

  it('that a proxy does not pass on is an error that names the proxy', async () => {
    for (const [headers, proxy] of [
      [{ server: 'cloudflare', 'cf-ray': '1' }, 'Cloudflare'],
      [{ 'x-amz-cf-id': 'x' }, 'Amazon CloudFront'],
      [{ via: '1.1 squid' }, 'a proxy'],
    ] as const) {
      await using world = await checkedWorld(zone, { answers: { [theirs.a]: other(522, headers) } })
      const { ok, problems } = await world.check('www.example.com')
      expect({ ok, codes: problems.map(({ code }) => code) }).toEqual({ ok: false, codes: ['proxy_unreachable'] })
      expect(problems[0]?.message).toContain(`where ${proxy} answers`)
    }
  })

  it('from another server is an error about the address', async () => {
    await using world = await checkedWorld(zone, { answers: { [theirs.a]: other(200, { server: 'nginx' }) } })
    expect(await world.codes('www.example.com')).toEqual(['wrong_address'])
  })

  it('that another server answers at our address is an error for this name, and a warning for every name', async () => {
    const answers = { [ours.a]: other(404, { server: 'nginx/1.22' }) }
    await using all = await checkedWorld(zone, { answers })
    expect(await all.codes('my.example.com')).toEqual(['port_80_other_server (warning)'])
    const answer = (host: string) => (host === serverHost ? ({ outcome: 'reached' } as const) : undefined)
    await using alone = await checkedWorld(zone, { answers, answer })
    const { problems, reaches } = await alone.check('my.example.com')
    expect(problems).toMatchObject([{ code: 'port_80_other_server', severity: 'error' }])
    expect(problems[0]?.message).toContain('nginx/1.22, status 404')
    expect(reaches).toBe(false)
  })

  it('without a response at our address is a warning, because the local network may be the reason', async () => {
    await using world = await checkedWorld(zone, { answers: { [ours.a]: unreachable } })
    expect(await world.codes('my.example.com')).toEqual(['port_80_unreachable (warning)'])
    expect((await world.check('my.example.com')).ok).toBe(true)
  })

  it('uses a name that a wildcard covers, and never an address that is not allowed', async () => {
    await using world = await checkedWorld(zone)
    await world.check('*.example.com')
    expect(world.probed).toEqual([expect.stringMatching(/^fairlead-[0-9a-f]{8}\.example\.com 45\.33\.32\.10$/)])
    await world.check('private.example.com')
    expect(world.probed).toHaveLength(1)
  })
})

describe('a check', () => {
  it('reports that the server itself has no address, or that the DNS servers of the machine do not answer', async () => {
    await using world = await checkedWorld({ 'example.com': `${right}\nmy A ${ours.a}` })
    await world.dns.zone('fairlead.dev', 'mail A 45.33.32.10')
    expect(await world.codes('www.example.com')).toEqual(['server_unresolved'])
    expect(await world.codes('my.example.com')).toEqual([])
    await using elsewhere = await checkedWorld({ 'example.com': `www A ${theirs.a}` })
    await elsewhere.dns.zone('fairlead.dev', '')
    expect(await elsewhere.codes('www.example.com')).toEqual(['server_unresolved'])
    await using silent = await checkedWorld({}, { resolver: silentResolver })
    expect(await silent.codes('www.example.com')).toEqual(['resolver_unreachable'])
  })

  it('rejects when its signal aborts', async () => {
    const { createDomainCheck } = await import('../../../server/src/features/domains/checks/check.ts')
    const check = createDomainCheck({
      resolver: silentResolver,
      allows: () => false,
      serverHost,
      probe: null,
      authority: async (signal) => {
        signal.throwIfAborted()
        return null
      },
    })
    const domain = { name: 'example.com', target, token: null, isAliasProof: false, challengeTarget: null }
    await expect(check(domain, AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough')
  })
})

const silentResolver: Resolver = {
  resolve: async (name) => ({ outcome: 'failed', names: [name], records: [], ttl: 0, failure: 'timeout' }),
  zoneOf: async () => null,
  askAuthority: async () => {
    throw new DnsError('timeout', 'It is silent.')
  },
}
