import { createDomainCheck, type DomainCheckResult } from '../../../server/src/features/domains/checks/check.ts'
import type {
  CertificateAuthority,
  CheckedDomain,
  ProbeResult,
} from '../../../server/src/features/domains/checks/facts.ts'
import type { GatherDependencies } from '../../../server/src/features/domains/checks/gather.ts'
import { createResolver } from '../../../server/src/platform/dns/resolver.ts'
import { createOutbound } from '../../../server/src/platform/outbound.ts'
import { type DnsWorld, dnsWorld } from '../dns-world.ts'

/** The addresses of the tested server and of other servers. The tests answer the requests; no address is contacted. */
export const ours = { a: '45.33.32.10', b: '45.33.32.11', six: '2600:3c01::10' }
export const theirs = { a: '93.184.215.14', b: '93.184.215.15', six: '2606:2800:21f::14' }

export const serverHost = 'panel.fairlead.dev'
export const target = 'shop-x.apps.fairlead.dev'
const serverZone = `panel A ${ours.a}\n*.apps A ${ours.a}`

export const identity = 'letsencrypt.org'
export const token = 'f00d'.repeat(10)
export const challengeTarget = 'abc._acme-challenge.apps.fairlead.dev'

export interface CheckOptions extends Partial<Omit<GatherDependencies, 'authority'>> {
  /** Addresses that answer differently from the server (`reached`) and from others (`unreachable`). */
  readonly answers?: Readonly<Record<string, ProbeResult>>
  readonly authority?: CertificateAuthority | null
  /** For answers that depend on the host; called before `answers` is used. */
  readonly answer?: (host: string, address: string) => ProbeResult | undefined
}

export const other = (status: number, headers: Record<string, string> = {}): ProbeResult => ({
  outcome: 'other',
  status,
  headers,
})
export const unreachable: ProbeResult = { outcome: 'unreachable', reason: 'timeout' }

export interface CheckedWorld extends AsyncDisposable {
  readonly dns: DnsWorld
  /** Each request as host and address. */
  readonly probed: readonly string[]
  check(name: string, more?: Partial<CheckedDomain>): Promise<DomainCheckResult>
  /** The code and severity of each problem. */
  codes(name: string, more?: Partial<CheckedDomain>): Promise<string[]>
}

/** The addresses that a server on the Internet may contact. */
export const publicOnly = createOutbound({ mode: 'public', allow: [], ports: [] }).allows

/**
 * Makes a name space with these zones and the server's zone, and checks domains in it.
 *
 * @param allows the authoritative servers that may be asked; servers of the name space have loopback addresses
 */
export async function checkedWorld(
  zones: Readonly<Record<string, string>>,
  options: CheckOptions = {},
  allows: (address: string) => boolean = () => true,
): Promise<CheckedWorld> {
  const dns = await dnsWorld({ 'fairlead.dev': serverZone, ...zones })
  const { answers = {}, answer, authority = { identities: [identity], accountUri: null }, ...given } = options
  const probed: string[] = []
  const check = createDomainCheck({
    resolver: createResolver({ servers: [dns.recursive], allows, authorityPort: dns.authorityPort }),
    allows: publicOnly,
    serverHost,
    probe: async (host, address) => {
      probed.push(`${host} ${address}`)
      const isOurs = Object.values(ours).includes(address)
      return answer?.(host, address) ?? answers[address] ?? (isOurs ? { outcome: 'reached' } : unreachable)
    },
    authority: async () => authority,
    ...given,
  })
  const never = new AbortController().signal
  const run = (name: string, more: Partial<CheckedDomain> = {}) =>
    check({ name, target, token: null, isAliasProof: false, challengeTarget: null, ...more }, never)
  return {
    dns,
    probed,
    check: run,
    async codes(name, more) {
      const { problems } = await run(name, more)
      return problems.map(({ code, severity }) => (severity === 'error' ? code : `${code} (warning)`))
    },
    [Symbol.asyncDispose]: () => dns[Symbol.asyncDispose](),
  }
}
