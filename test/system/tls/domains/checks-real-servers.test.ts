import { describe, expect, it } from 'vitest'
import { createDomainCheck } from '../../../../server/src/features/domains/checks/check.ts'
import { createResolver } from '../../../../server/src/platform/dns/resolver.ts'
import { type DnsServer, query } from '../../../../server/src/platform/dns/transport.ts'
import { createOutbound } from '../../../../server/src/platform/outbound.ts'
import { challengeTarget, identity, ours, serverHost, target, theirs, token } from '../../../harness/domains/checks.ts'
import { freePort } from '../../../harness/ports.ts'
import { missingProgram, startKnot, startUnbound } from '../../../harness/real-dns.ts'
import { isRoot } from '../../../harness/temporary.ts'

const missing = await missingProgram('knotd', 'keymgr')
if (missing !== null) console.warn(`Checks of domains are not tried with Knot DNS: ${missing}`)
const missingValidator = missing ?? (await missingProgram('unbound'))
if (missingValidator !== null) console.warn(`Checks of domains are not tried with Unbound: ${missingValidator}`)

const never = new AbortController().signal
const text = 'x'.repeat(200)
const zones = {
  '': '',
  com: '',
  dev: '',
  'fairlead.dev': `panel A ${ours.a}\npanel AAAA ${ours.six}\n*.apps A ${ours.a}`,
  'example.com': `@ A ${ours.a}
@ AAAA ${ours.six}
@ CAA 0 issue "${identity}; validationmethods=http-01"
www CNAME ${target}.
* CNAME ${target}.
old A ${theirs.a}
loop CNAME pool
pool CNAME loop
empty TXT "no address"
gone CNAME nowhere.example.com.
nowhere.sub A 1.1.1.1
shut A ${ours.a}
shut CAA 0 issue ";"
_acme-challenge CNAME ${challengeTarget}.
_fairlead-challenge.www TXT "${token}"
long TXT ${Array.from({ length: 20 }, () => `"${text}"`).join(' ')}`,
  'example.net': 'www CNAME gone\nother A 1.1.1.1',
}

/** The expected codes for each name, with either recursive server. */
const expected: Readonly<Record<string, readonly string[]>> = {
  'example.com': [],
  'www.example.com': [],
  'any.example.com': [],
  'old.example.com': ['wrong_address'],
  'loop.example.com': ['cname_loop'],
  'empty.example.com': ['no_address'],
  'www.example.net': ['cname_dangling'],
  'missing.example.net': ['name_missing'],
  'shut.example.com': ['caa_forbids'],
  'www.nobody-has-this.com': ['domain_unregistered'],
  // Proved by dns-01, which the domain does not allow.
  '*.example.com': ['caa_forbids'],
}

const checkWith = (recursive: DnsServer, authority: DnsServer) =>
  createDomainCheck({
    resolver: createResolver({ servers: [recursive], allows: () => true, authorityPort: authority.port }),
    allows: createOutbound({ mode: 'public', allow: [], ports: [] }).allows,
    serverHost,
    probe: null,
    authority: async () => ({ identities: [identity], accountUri: null }),
  })

async function codesOf(check: ReturnType<typeof checkWith>, name: string): Promise<string[]> {
  const { problems } = await check({ name, target, token: null, isAliasProof: false, challengeTarget }, never)
  return problems.map(({ code }) => code)
}

describe.skipIf(missing !== null)('with Knot DNS', () => {
  it('distinguishes names with and without problems, in signed zones', async () => {
    const server = { address: '127.53.0.1', port: await freePort() }
    await using knot = await startKnot(server, zones, ['example.com'])
    const check = checkWith(knot.server, knot.server)
    for (const [name, codes] of Object.entries(expected))
      expect([name, await codesOf(check, name)]).toEqual([name, codes])
    const owner = await check(
      { name: 'www.example.com', target, token, isAliasProof: false, challengeTarget: null },
      never,
    )
    expect(owner).toMatchObject({ ok: true, isProven: true, problems: [] })
  })

  it('responses that are too long for UDP come by TCP, and a missing TCP is reported', async () => {
    const server = { address: '127.53.0.2', port: await freePort() }
    await using knot = await startKnot(server, zones)
    const long = await query(server, { name: 'long.example.com', type: 'TXT', recursion: false }, never)
    expect(long).toMatchObject({ isAuthoritative: true, answers: [{ text: text.repeat(20) }] })
    await knot.stop()
    await expect(query(server, { name: 'com', type: 'NS', recursion: false }, never)).rejects.toMatchObject({
      code: 'unreachable',
    })
  })
})

describe.skipIf(missingValidator !== null)('with Unbound, which checks signatures', () => {
  it('right signatures give no problem, wrong ones a specific code', async () => {
    const authority = { address: '127.53.0.3', port: await freePort() }
    await using knot = await startKnot(authority, zones, ['example.com'])
    const anchor = await knot.trustAnchor('example.com')
    {
      await using unbound = await startUnbound({ address: '127.53.0.4', port: await freePort() }, authority, [anchor])
      const www = { name: 'www.example.com', type: 'CNAME', recursion: true } as const
      expect(await query(unbound.server, www, never)).toMatchObject({ isAuthenticated: true })
      const check = checkWith(unbound.server, authority)
      for (const [name, codes] of Object.entries(expected)) {
        expect([name, await codesOf(check, name)]).toEqual([name, codes])
      }
    }
    const other = anchor.replace(/[0-9a-f]{8}$/i, '00000000')
    await using unbound = await startUnbound({ address: '127.53.0.5', port: await freePort() }, authority, [other])
    const check = checkWith(unbound.server, authority)
    expect(await codesOf(check, 'www.example.com')).toEqual(['dnssec_broken'])
    expect(await codesOf(check, 'www.example.net')).toEqual(['cname_dangling'])
  })

  it.skipIf(!isRoot)('name servers that are gone are reported, with the parent zone as the witness', async () => {
    const port = 53
    const gone = { address: '127.53.0.6', port }
    const com = `example NS ns1.example\nns1.example A ${gone.address}`
    await using parent = await startKnot(
      { address: '127.53.0.7', port },
      { '': '', com, dev: '', 'fairlead.dev': zones['fairlead.dev'] },
    )
    await using unbound = await startUnbound({ address: '127.53.0.8', port: await freePort() }, parent.server, [])
    const check = checkWith(unbound.server, parent.server)
    const { problems } = await check(
      { name: 'www.example.com', target, token: null, isAliasProof: false, challengeTarget: null },
      never,
    )
    expect(problems).toMatchObject([{ code: 'name_servers_silent', severity: 'error' }])
    expect(problems[0]?.message).toContain(`ns1.example.com (an address in 127.0.0.0/8) of example.com`)
  })
})
