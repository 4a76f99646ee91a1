import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { AuthorityAnswer, CheckFacts, ProbeResult } from '../../../server/src/features/domains/checks/facts.ts'
import { findProblems } from '../../../server/src/features/domains/checks/problems.ts'
import { recordsToSet } from '../../../server/src/features/domains/checks/records.ts'
import type { DnsRecord } from '../../../server/src/platform/dns/messages.ts'
import type { Resolution } from '../../../server/src/platform/dns/resolver.ts'
import { ours, serverHost, target, theirs, token } from '../../harness/domains/checks.ts'

/** Names and texts of strangers: a few meaningful ones, and arbitrary ones. */
const names = fc.oneof(
  fc.constantFrom('www.example.com', 'example.com', target, serverHost, 'other.example.net', ''),
  fc.string({ unit: 'binary', maxLength: 80 }),
)
const addresses = fc.oneof(
  fc.constantFrom(
    ...Object.values(ours),
    ...Object.values(theirs),
    '127.0.0.1',
    '10.0.0.1',
    '::',
    'fd00::1',
    '64:ff9b::1',
  ),
  fc.ipV4(),
  fc.ipV6(),
)
const ttl = fc.nat({ max: 10_000_000 })
const texts = fc.oneof(fc.constant(token), fc.string({ unit: 'binary', maxLength: 300 }))
const addressRecords: fc.Arbitrary<DnsRecord> = fc
  .tuple(names, addresses, ttl)
  .map(([name, address, seconds]) => ({ type: address.includes(':') ? 'AAAA' : 'A', name, address, ttl: seconds }))
const resolutions: fc.Arbitrary<Resolution> = fc.record({
  outcome: fc.constantFrom('found', 'no_data', 'no_name', 'cname_loop', 'cname_too_long', 'failed'),
  names: fc.array(names, { minLength: 1, maxLength: 12 }),
  records: fc.array(addressRecords, { maxLength: 6 }),
  ttl,
  failure: fc.constantFrom(null, 'timeout', 'dnssec', 'SERVFAIL', 'unreachable', 'malformed'),
})
const probeResults: fc.Arbitrary<ProbeResult> = fc.oneof(
  fc.constant({ outcome: 'reached' } as const),
  fc.record({
    outcome: fc.constant('other' as const),
    status: fc.nat({ max: 999 }),
    headers: fc.dictionary(fc.constantFrom('server', 'via', 'cf-ray', 'location'), texts),
  }),
  fc.record({ outcome: fc.constant('unreachable' as const), reason: fc.constantFrom('refused', 'timeout', 'failed') }),
)
const answers: fc.Arbitrary<AuthorityAnswer> = fc.record({
  server: names,
  address: addresses,
  state: fc.constantFrom('answers', 'refuses', 'fails', 'silent', 'unknown'),
  rcode: fc.constantFrom(null, 'NOERROR', 'REFUSED'),
  alias: fc.option(names),
  addresses: fc.array(addresses, { maxLength: 3 }),
})
const failures = fc.constantFrom(null, 'timeout', 'SERVFAIL')
const caaRecords: fc.Arbitrary<DnsRecord> = fc.record({
  type: fc.constant('CAA' as const),
  name: names,
  ttl,
  isCritical: fc.boolean(),
  tag: fc.oneof(fc.constantFrom('issue', 'issuewild', 'iodef'), texts),
  value: fc.oneof(
    fc.constantFrom(';', 'letsencrypt.org', 'letsencrypt.org; accounturi=x; validationmethods=dns-01'),
    texts,
  ),
})
const facts: fc.Arbitrary<CheckFacts> = fc.record({
  domain: fc.record({
    name: fc.constantFrom('www.example.com', 'example.com', '*.example.com'),
    target: fc.constant(target),
    token: fc.constantFrom(null, token),
    isAliasProof: fc.boolean(),
    challengeTarget: fc.constantFrom(null, 'abc.example.net'),
  }),
  host: fc.constantFrom('www.example.com', 'example.com'),
  registrable: fc.constantFrom(null, 'example.com'),
  own: fc.record({
    host: fc.constant(serverHost),
    addresses: fc.uniqueArray(fc.constantFrom(...Object.values(ours), '10.0.0.1')),
    isResolverSilent: fc.boolean(),
  }),
  ipv4: resolutions,
  ipv6: resolutions,
  registration: fc.option(resolutions),
  zone: fc.option(
    fc.record({
      name: fc.constantFrom('example.com', 'www.example.com'),
      answers: fc.array(answers, { maxLength: 4 }),
      unresolved: fc.array(names, { maxLength: 2 }),
      private: fc.array(names, { maxLength: 2 }),
    }),
  ),
  besideAlias: fc.subarray(['SOA', 'TXT']),
  probes: fc.array(fc.record({ address: addresses, result: probeResults, ofServer: fc.option(probeResults) }), {
    maxLength: 4,
  }),
  authority: fc.option(
    fc.record({
      identities: fc.subarray(['letsencrypt.org']),
      accountUri: fc.constantFrom(null, 'https://a.example/1'),
    }),
  ),
  caa: fc.option(
    fc.record({
      at: fc.constant('example.com'),
      records: fc.array(caaRecords, { maxLength: 4 }),
      failure: failures,
      isElsewhere: fc.boolean(),
    }),
  ),
  ownership: fc.option(
    fc.record({ values: fc.array(texts, { maxLength: 5 }), failure: failures, isElsewhere: fc.boolean() }),
  ),
  challenge: fc.option(fc.record({ targets: fc.array(names, { maxLength: 3 }), failure: failures })),
})

it('any result gives problems of one line each, errors first, without private addresses', () => {
  fc.assert(
    fc.property(facts, (found) => {
      const problems = findProblems(found)
      for (const { code, message } of problems) {
        expect(code).toMatch(/^[a-z0-9_]+$/)
        expect(message).toMatch(/^[ -~“”…]{20,1500}$/)
        if (!found.own.addresses.includes('10.0.0.1')) expect(message).not.toMatch(/10\.0\.0\.1\b|fd00::1/)
      }
      const severities = problems.map(({ severity }) => severity)
      expect(severities).toEqual(severities.toSorted())
      expect(new Set(problems.map(({ code }) => code)).size).toBe(problems.length)
      expect(recordsToSet(found.domain, found.own.addresses).length).toBeGreaterThan(0)
    }),
    { numRuns: 3_000 },
  )
})
