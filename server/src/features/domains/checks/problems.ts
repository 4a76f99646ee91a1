import { BlockList, isIP, isIPv6 } from 'node:net'
import type { Resolution } from '../../../platform/dns/resolver.ts'
import { createOutbound } from '../../../platform/outbound.ts'
import type { DomainProblem } from '../tables.ts'
import { type CaaRefusal, caaRefusal } from './caa.ts'
import {
  type AuthorityAnswer,
  addressesIn,
  baseOf,
  type CaaFacts,
  type CheckFacts,
  challengeName,
  foundAddresses,
  isWildcard,
  ownershipName,
  type ProbeFacts,
} from './facts.ts'
import { isToken } from './gather.ts'
import { howToSet, isApex } from './records.ts'

/** Finds everything that is wrong with a domain, the most informative problem first. */
export function findProblems(facts: CheckFacts): CheckProblem[] {
  const verdict = judge(facts)
  const isFound = foundAddresses(facts).length > 0
  const elsewhere = isFound ? addressProblems(facts) : [lookupProblem(facts)]
  const conflicts = conflictProblems(facts)
  // The recursive server has one of several answers, or an old answer: this is not what the owner has to correct.
  const way = verdict.isStale
    ? [staleProblem(facts)]
    : verdict.disagree
      ? elsewhere.filter(({ severity }) => severity === 'warning')
      : elsewhere
  return inOrder([
    ...way,
    ...conflicts,
    ...zoneProblems(facts, verdict),
    ...portProblems(facts),
    ...ownershipProblems(facts),
    ...certificateProblems(facts),
  ])
}

interface Verdict {
  readonly right: readonly AuthorityAnswer[]
  readonly wrong: readonly AuthorityAnswer[]
  /** True when the authoritative servers are right, and only the recursive server still has something else. */
  readonly isStale: boolean
  /** True when visitors may get either a right or a wrong answer. */
  readonly disagree: boolean
}

const aliasesOf = ({ ipv4, ipv6 }: CheckFacts): string[] => [...ipv4.names.slice(1), ...ipv6.names.slice(1)]

export const isAliasOfApp = (facts: CheckFacts): boolean =>
  facts.domain.target !== '' && aliasesOf(facts).includes(facts.domain.target)

/**
 * Returns the host name of another account's app to which a CNAME record leads. That app's owner controls the name,
 * wherever the operator's own records lead from there.
 */
function otherAppOf(facts: CheckFacts): string | undefined {
  const { domain, own } = facts
  const suffix = domain.target.slice(domain.target.indexOf('.'))
  if (suffix.length < 2) return undefined
  const isOfApp = (name: string) => name.endsWith(suffix) && name !== own.host
  const named = [facts.ipv4, facts.ipv6].flatMap(({ names }) => names.slice(1).find(isOfApp) ?? [])
  return named.find((name) => name !== domain.target && domain.ofAccount?.includes(name) !== true)
}

/** True when a name leads here through a CNAME record; then this server's operator sets the addresses behind it. */
function isAliasOfUs(facts: CheckFacts): boolean {
  const names = aliasesOf(facts)
  return otherAppOf(facts) === undefined && (names.includes(facts.domain.target) || names.includes(facts.own.host))
}

function isFoundRight(facts: CheckFacts): boolean {
  const found = foundAddresses(facts)
  if (found.length === 0 || otherAppOf(facts) !== undefined) return false
  return isAliasOfUs(facts) || found.every((address) => isReached(facts, address))
}

/** True when an address belongs to this server or to a proxy in front of it. */
export const isReached = ({ own, probes }: CheckFacts, address: string): boolean =>
  own.addresses.includes(address) ||
  probes.some((each) => each.address === address && each.result.outcome === 'reached')

function judge(facts: CheckFacts): Verdict {
  const answering = (facts.zone?.answers ?? []).filter(({ state }) => state === 'answers')
  const judged = answering.map((answer) => ({ answer, isRight: isRight(facts, answer) }))
  const right = judged.filter((each) => each.isRight === true).map(({ answer }) => answer)
  const wrong = judged.filter((each) => each.isRight === false).map(({ answer }) => answer)
  return {
    right,
    wrong,
    isStale: right.length > 0 && right.length === judged.length && isOld(facts),
    disagree: right.length > 0 && wrong.length > 0,
  }
}

/** A recursive server that failed has no old answer, and may have found wrong signatures. */
const isOld = (facts: CheckFacts): boolean =>
  ![facts.ipv4, facts.ipv6].some(({ outcome }) => outcome === 'failed') && !isFoundRight(facts) && !isAliasOfUs(facts)

/** True when an answer leads to this server; null when that depends on following a CNAME record further. */
function isRight(facts: CheckFacts, { alias, addresses }: AuthorityAnswer): boolean | null {
  if (alias !== null) {
    if (alias === facts.domain.target || alias === facts.own.host) return true
    // The recursive server has followed the same record.
    const isFollowed = facts.ipv4.names[1] === alias || facts.ipv6.names[1] === alias
    return isFollowed ? isFoundRight(facts) : null
  }
  return addresses.length > 0 && addresses.every((address) => isReached(facts, address))
}

/** The problems that concern traffic, the most informative first. The codes are stable. */
const traffic = [
  'resolver_unreachable',
  'domain_unregistered',
  'dnssec_broken',
  'name_servers_unresolved',
  'name_servers_private',
  'name_servers_silent',
  'lame_delegation',
  'name_servers_disagree',
  'resolver_stale',
  'cname_loop',
  'cname_too_long',
  'cname_dangling',
  'cname_conflict',
  'name_missing',
  'server_failure',
  'server_unresolved',
  'no_address',
  'loopback_address',
  'private_address',
  'ipv6_only',
  'cname_elsewhere',
  'proxy_unreachable',
  'wrong_address',
  'ipv6_wrong',
  'some_addresses_wrong',
  'proxied',
  'port_80_other_server',
  'port_80_unreachable',
] as const

const ownership = ['txt_missing', 'txt_wrong', 'txt_several', 'txt_unreadable'] as const

const certificate = [
  'caa_forbids',
  'caa_forbids_wildcards',
  'caa_unreadable',
  'challenge_missing',
  'challenge_elsewhere',
] as const

export type ProblemCode = (typeof traffic)[number] | (typeof ownership)[number] | (typeof certificate)[number]

interface CheckProblem extends DomainProblem {
  readonly code: ProblemCode
}

const order: readonly ProblemCode[] = [...traffic, ...ownership, ...certificate]

const error = (code: ProblemCode, message: string): CheckProblem => ({ code, message, severity: 'error' })
const warning = (code: ProblemCode, message: string): CheckProblem => ({ code, message, severity: 'warning' })

const inOrder = (problems: readonly CheckProblem[]): CheckProblem[] =>
  problems.toSorted(
    (one, other) =>
      Number(one.severity === 'warning') - Number(other.severity === 'warning') ||
      order.indexOf(one.code) - order.indexOf(other.code),
  )

export const isInTheWay = ({ code, severity }: CheckProblem): boolean =>
  severity === 'error' && (traffic as readonly string[]).includes(code)

/** The kind of an address. Only public addresses can be reached from everywhere. */
export type AddressKind = 'public' | 'private' | 'loopback'

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4')

const publicOnly = createOutbound({ mode: 'public', allow: [], ports: [] })
const loopback = listOf('127.0.0.0/8', '0.0.0.0/8', '::1/128', '::/128')

function addressKind(address: string): AddressKind {
  if (loopback.check(address, familyOf(address))) return 'loopback'
  return publicOnly.allows(address) ? 'public' : 'private'
}

const networks = [
  ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '169.254.0.0/16', '127.0.0.0/8', '0.0.0.0/8'],
  ...['fc00::/7', 'fe80::/10', '::1/128', '::/128'],
].map((network) => ({ network, list: listOf(network) }))

/**
 * Returns an address for a message. Of an address that is not public only the network is shown: a stranger's name may
 * lead to a name of the operator, whose address the recursive server knows but the stranger must not learn.
 */
function shown(address: string): string {
  if (addressKind(address) === 'public') return address
  const found = networks.find(({ list }) => list.check(address, familyOf(address)))
  return found === undefined ? 'an address that is not public' : `an address in ${found.network}`
}

function listOf(...entries: readonly string[]): BlockList {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', bits = '0'] = entry.split('/')
    list.addSubnet(address, Number(bits), familyOf(address))
  }
  return list
}

function listed(items: readonly string[], most = 4): string {
  const unique = [...new Set(items)]
  const all = unique.length > most ? [...unique.slice(0, most), `${unique.length - most} more`] : unique
  return all.length < 2 ? (all[0] ?? '') : `${all.slice(0, -1).join(', ')} and ${all[all.length - 1]}`
}

/** Returns a text from DNS or a web server as one short line of visible characters. */
function readable(text: string): string {
  const seen = text.replace(/[^ -~]/g, '?').trim()
  return seen.length > 100 ? `${seen.slice(0, 100)}…` : seen
}

const units = [
  { name: 'day', seconds: 86_400 },
  { name: 'hour', seconds: 3_600 },
  { name: 'minute', seconds: 60 },
] as const

function lasting(seconds: number): string {
  const unit = units.find((each) => seconds >= each.seconds)
  if (unit === undefined) return 'a minute'
  const count = Math.ceil(seconds / unit.seconds)
  return count === 1 ? `${unit.name === 'hour' ? 'an' : 'a'} ${unit.name}` : `${count} ${unit.name}s`
}

function proxyIn(headers: Readonly<Record<string, string>>): string | null {
  const found = signs.find(({ header, value }) => value.test(headers[header] ?? '\0'))
  return found?.name ?? null
}

const signs: readonly { readonly name: string; readonly header: string; readonly value: RegExp }[] = [
  { name: 'Cloudflare', header: 'server', value: /^cloudflare/i },
  { name: 'Cloudflare', header: 'cf-ray', value: /^[^\0]/ },
  { name: 'Amazon CloudFront', header: 'x-amz-cf-id', value: /^[^\0]/ },
  { name: 'Amazon CloudFront', header: 'server', value: /^cloudfront/i },
  { name: 'Fastly', header: 'x-served-by', value: /^cache-/i },
  { name: 'Akamai', header: 'server', value: /^akamai/i },
  { name: 'Azure Front Door', header: 'x-azure-ref', value: /^[^\0]/ },
  { name: 'Bunny', header: 'server', value: /^bunnycdn/i },
  { name: 'Sucuri', header: 'x-sucuri-id', value: /^[^\0]/ },
  { name: 'Imperva', header: 'x-iinfo', value: /^[^\0]/ },
  { name: 'Varnish', header: 'x-varnish', value: /^[^\0]/ },
  { name: 'a proxy', header: 'via', value: /^[^\0]/ },
]

function addressProblems(facts: CheckFacts): CheckProblem[] {
  const { own } = facts
  if (isAliasOfUs(facts)) return []
  const otherApp = otherAppOf(facts)
  if (otherApp !== undefined) return [otherAppProblem(facts, otherApp)]
  const foreign = foundAddresses(facts).filter((address) => !own.addresses.includes(address))
  const reached = foreign.filter((address) => probeOf(facts, address)?.result.outcome === 'reached')
  const lost = foreign.filter((address) => !reached.includes(address))
  if (own.addresses.length === 0) return lost.length > 0 ? [unknownServer(facts)] : []
  return [
    ...(reached.length > 0 ? [proxiedProblem(facts, reached)] : []),
    ...(lost.length > 0 ? lostProblems(facts, lost) : []),
  ]
}

const probeOf = ({ probes }: CheckFacts, address: string): ProbeFacts | undefined =>
  probes.find((each) => each.address === address)

const otherAppProblem = ({ domain, own }: CheckFacts, host: string): CheckProblem =>
  error(
    'cname_elsewhere',
    `${domain.name} leads to ${readable(host)}, which is the address of another app. ${howToSet(domain, own.addresses)}`,
  )

const unknownServer = ({ own, domain }: CheckFacts): CheckProblem =>
  error(
    'server_unresolved',
    `${own.host}, the name of this server, has no address, so it cannot be told if ${domain.name} leads here. The operator of this ` +
      'server must set one.',
  )

const proxiedProblem = ({ domain }: CheckFacts, addresses: readonly string[]): CheckProblem =>
  warning(
    'proxied',
    `${domain.name} leads to ${listed(addresses.map(shown))}, not to this server, but what is sent there arrives here: a proxy or content ` +
      'network stands in between. It works while that passes on /.well-known/acme-challenge/ over HTTP; visitors see its certificate, ' +
      'and this server sees its addresses instead of theirs. Set it to check the certificate of this server (“full (strict)”).',
  )

function lostProblems(facts: CheckFacts, lost: readonly string[]): CheckProblem[] {
  const loopback = lost.filter((address) => addressKind(address) === 'loopback')
  const internal = lost.filter((address) => addressKind(address) === 'private')
  const open = lost.filter((address) => addressKind(address) === 'public')
  const { domain, own } = facts
  const set = howToSet(domain, own.addresses)
  const only = (kind: string) => `The authority and visitors cannot reach ${kind}. ${set}`
  return [
    ...(loopback.length > 0
      ? [
          error(
            'loopback_address',
            `${domain.name} leads to ${listed(loopback.map(shown))}, which is everybody's own machine. ${set}`,
          ),
        ]
      : []),
    ...(internal.length > 0
      ? [
          error(
            'private_address',
            `${domain.name} leads to ${listed(internal.map(shown))}, a private network. ${only('it')}`,
          ),
        ]
      : []),
    ...(open.length > 0 ? [publicProblem(facts, open)] : []),
  ]
}

function publicProblem(facts: CheckFacts, lost: readonly string[]): CheckProblem {
  const { domain, own, ipv4, ipv6 } = facts
  const { name } = domain
  const [found4, found6] = [addressesIn(ipv4.records), addressesIn(ipv6.records)]
  const set = howToSet(domain, own.addresses)
  const where = listed(lost.map(shown))
  const proxy = lost.map((address) => proxyAt(facts, address)).find((each) => each !== null)
  const isWithoutIpv6 = !own.addresses.some(isIPv6)
  if (found4.length === 0 && isWithoutIpv6) {
    return error('ipv6_only', `${name} has only AAAA records (${where}), and this server has no IPv6 address. ${set}`)
  }
  if (proxy !== undefined) {
    const message = `${name} leads to ${where}, where ${proxy} answers, but requests do not arrive here.`
    return error(
      'proxy_unreachable',
      `${message} Let it pass on HTTP to ${listed(own.addresses)}, or take it away: ${set}`,
    )
  }
  if (lost.every(isIPv6) && found4.length > 0 && found4.every((address) => own.addresses.includes(address))) {
    const remedy = isWithoutIpv6 ? 'Remove the AAAA record: this server has no IPv6 address.' : set
    return error(
      'ipv6_wrong',
      `The A record of ${name} is right, but its AAAA record leads to ${where}, which browsers and the authority prefer. ${remedy}`,
    )
  }
  if ([...found4, ...found6].some((address) => own.addresses.includes(address))) {
    const message = `Some addresses of ${name} are not this server's: ${where}. Visitors are sent there at random.`
    return error('some_addresses_wrong', `${message} Remove them.`)
  }
  const alias = ipv4.names.length > 1 ? ipv4.names : ipv6.names
  if (alias.length > 1) {
    const message = `${name} is a CNAME of ${readable(alias[1] ?? '')}, which leads to ${where}, and not to this server.`
    return error('cname_elsewhere', `${message} ${set}`)
  }
  return error(
    'wrong_address',
    `${name} leads to ${where}, which is not this server (${listed(own.addresses)}). ${set}`,
  )
}

function proxyAt(facts: CheckFacts, address: string): string | null {
  const result = probeOf(facts, address)?.result
  return result?.outcome === 'other' ? proxyIn(result.headers) : null
}

function portProblems({ probes, domain, own }: CheckFacts): CheckProblem[] {
  const strange = probes.filter(
    ({ address, result }) => own.addresses.includes(address) && result.outcome !== 'reached',
  )
  const [first] = strange
  if (first === undefined) return []
  const where = listed(strange.map(({ address }) => address))
  if (first.result.outcome === 'other') return [otherServer(domain.name, where, first)]
  const message = `Port 80 of ${where} cannot be reached from here (${first.result.outcome === 'unreachable' ? first.result.reason : ''}).`
  const advice =
    'Open it in the firewall and forward it to this server; if only machines of the same network cannot reach it, all is well.'
  return [warning('port_80_unreachable', `${message} The authority proves ${domain.name} there. ${advice}`)]
}

/** An error when this server's own host is reached at the address: then only this name has the problem. */
function otherServer(name: string, where: string, { result, ofServer }: ProbeFacts): CheckProblem {
  const status = result.outcome === 'other' ? `, status ${result.status}` : ''
  const software = result.outcome === 'other' ? readable(result.headers['server'] ?? '') : ''
  const message =
    `Another web server${software === '' ? '' : ` (${software}${status})`} answers for ${name} at port 80 of ${where}. The authority proves ` +
    'the name there: stop that server, or let it pass on requests for the name to this one.'
  const isOnlyThis = ofServer?.outcome === 'reached'
  return isOnlyThis ? error('port_80_other_server', message) : warning('port_80_other_server', message)
}

function lookupProblem(facts: CheckFacts): CheckProblem {
  const result = mostTelling(facts.ipv4, facts.ipv6)
  const { domain, own, host } = facts
  const { name } = domain
  const target = result.names[result.names.length - 1] ?? host
  const path = listed(result.names.slice(0, 4).map(readable))
  const set = howToSet(domain, own.addresses)
  const isAlias = result.names.length > 1
  switch (result.outcome) {
    case 'failed':
      return failureProblem(facts, target, result.failure ?? 'SERVFAIL')
    case 'cname_loop':
      return error('cname_loop', `The CNAME records of ${name} lead in a circle (${path}). ${set}`)
    case 'cname_too_long':
      return error(
        'cname_too_long',
        `${name} leads through ${result.names.length - 1} CNAME records (${path} …), more than resolvers follow. ${set}`,
      )
    case 'no_name':
      return isAlias ? danglingProblem(facts, target) : missingProblem(facts)
    default:
      if (isAlias && isOurs(facts, target)) return serverProblem(facts, target)
      return error(
        'no_address',
        isAlias
          ? `${name} is a CNAME of ${readable(target)}, which has no address. ${set}`
          : `${name} has no A, AAAA or CNAME record. ${set}`,
      )
  }
}

const ranks: readonly Resolution['outcome'][] = [
  'failed',
  'cname_loop',
  'cname_too_long',
  'no_name',
  'no_data',
  'found',
]

const mostTelling = (one: Resolution, other: Resolution): Resolution =>
  ranks.indexOf(other.outcome) < ranks.indexOf(one.outcome) ? other : one

const isOurs = ({ domain, own }: CheckFacts, name: string): boolean => name === domain.target || name === own.host

function danglingProblem(facts: CheckFacts, target: string): CheckProblem {
  const { domain, own } = facts
  if (isOurs(facts, target)) return serverProblem(facts, target)
  const set = howToSet(domain, own.addresses)
  return error(
    'cname_dangling',
    `${domain.name} is a CNAME of ${readable(target)}, and that name does not exist. ${set}`,
  )
}

/** Only the operator can set the names of this server. */
const serverProblem = ({ domain }: CheckFacts, name: string): CheckProblem =>
  error(
    'server_unresolved',
    `${domain.name} is set as it should be, but ${name} has no address. The operator of this server must set one.`,
  )

function missingProblem({ domain, registrable, registration, own }: CheckFacts): CheckProblem {
  const { name } = domain
  if (registration?.outcome === 'no_name') {
    const message = `${registrable} is not registered, or its registrar has not delegated it: no name server knows it.`
    return error('domain_unregistered', `${message} Register it, or set its name servers at the registrar.`)
  }
  return error('name_missing', `${name} does not exist in DNS. ${howToSet(domain, own.addresses)}`)
}

function conflictProblems(facts: CheckFacts): CheckProblem[] {
  const { domain, host, zone, besideAlias, ipv4, ipv6, own } = facts
  const isAlias = ipv4.names.length > 1 || ipv6.names.length > 1
  const isZoneApex = zone?.name === host || isApex(host)
  if (!isAlias || (!isZoneApex && besideAlias.length === 0)) return []
  const beside = besideAlias.length > 0 ? besideAlias : ['SOA', 'NS']
  const message =
    `${domain.name} has a CNAME record beside its ${listed(beside)} records, which DNS does not allow: resolvers take one or the other. ` +
    `Remove the CNAME record, or the others. ${howToSet(domain, own.addresses)}`
  return [isFoundRight(facts) ? warning('cname_conflict', message) : error('cname_conflict', message)]
}

export const isProven = ({ ownership, domain }: CheckFacts): boolean =>
  (ownership?.values ?? []).some((value) => isToken(value, domain.token))

function ownershipProblems(facts: CheckFacts): CheckProblem[] {
  const { ownership, domain } = facts
  if (ownership === null || isProven(facts) || (domain.isAliasProof && isAliasOfApp(facts))) return []
  const at = ownershipName(domain.name)
  const set = `Set for ${at}: TXT ${domain.token}.`
  const { values, failure } = ownership
  if (failure !== null) {
    // Another problem reports servers that give no records at all.
    if (facts.ipv4.outcome === 'failed' && facts.ipv6.outcome === 'failed') return []
    const message = `The TXT record of ${at}, which proves that the name is yours, cannot be read (${failure}).`
    return [error('txt_unreadable', `${message} Try again when the name servers answer.`)]
  }
  const [first] = values
  if (first === undefined) {
    return [error('txt_missing', `${at} has no TXT record, which proves that the name is yours. ${set}`)]
  }
  // The DNS server may know names that not everybody may read.
  if (ownership.isElsewhere) {
    const message = `${at} is a CNAME of a name whose TXT records do not have the value that proves that the name is yours.`
    return [error('txt_wrong', `${message} ${set}`)]
  }
  if (values.length === 1) {
    return [
      error(
        'txt_wrong',
        `The TXT record of ${at} is “${readable(first)}”, and not the value that proves that the name is yours. ${set}`,
      ),
    ]
  }
  const message = `${at} has ${values.length} TXT records (${listed(values.map((each) => `“${readable(each)}”`))}), and none of them is the value that proves that the name is yours.`
  return [error('txt_several', `${message} Remove them. ${set}`)]
}

/** Reports name servers that fail although other servers answer, and name servers with different answers. */
function zoneProblems(facts: CheckFacts, { right, wrong, disagree }: Verdict): CheckProblem[] {
  const { zone, domain, own, host } = facts
  if (zone === null) return []
  const answering = zone.answers.filter(({ state }) => state === 'answers')
  const silent = zone.answers.filter(({ state }) => state === 'silent')
  const lame = zone.answers.filter(isLame)
  // If none answers, this server may not be allowed to reach any of them.
  if (answering.length === 0) return []
  const problems: CheckProblem[] = []
  if (disagree) {
    problems.push(
      error(
        'name_servers_disagree',
        `The name servers of ${zone.name} do not agree: ${listed(right.map(({ server }) => readable(server)))} lead ${host} here, ` +
          `${listed(wrong.map((each) => `${readable(each.server)} to ${placeOf(each)}`))}. Wait until all of them have the change, or ` +
          `correct those. ${howToSet(domain, own.addresses)}`,
      ),
    )
  }
  if (silent.length > 0)
    problems.push(warning('name_servers_silent', silentMessage(zone.name, silent, 'Some visitors wait long.')))
  if (lame.length > 0) problems.push(warning('lame_delegation', lameMessage(zone.name, lame)))
  return problems
}

const isLame = ({ state }: AuthorityAnswer): boolean => state === 'refuses' || state === 'fails'

function placeOf({ alias, addresses, rcode }: AuthorityAnswer): string {
  if (alias !== null) return readable(alias)
  return addresses.length > 0 ? listed(addresses.map(shown)) : `nothing (${rcode})`
}

const silentMessage = (zone: string, silent: readonly AuthorityAnswer[], effect: string): string =>
  `The name servers ${listed(silent.map(serverName))} of ${zone} do not answer. ${effect} Start them, or remove them at the ` +
  `registrar of ${zone}.`

const lameMessage = (zone: string, lame: readonly AuthorityAnswer[]): string =>
  `The name servers ${listed(lame.map((each) => `${serverName(each)} (${each.rcode === 'NOERROR' ? 'no authority' : each.rcode})`))} ` +
  `are said to have ${zone}, but do not. Add the zone there, or correct the name servers at the registrar of ${zone}.`

const serverName = ({ server, address }: AuthorityAnswer): string => `${readable(server)} (${shown(address)})`

function failureProblem(facts: CheckFacts, name: string, failure: string): CheckProblem {
  const { zone, own } = facts
  const wording = failure === 'timeout' || failure === 'unreachable' ? 'gave no answer' : `answered ${failure}`
  const other = error(
    'server_failure',
    `The records of ${readable(name)} cannot be read: the DNS server ${wording}. Check the zone at your DNS provider, and try again.`,
  )
  if (own.isResolverSilent) {
    const message =
      'The DNS servers of this machine do not answer, so nothing can be said. Its operator must correct FAIRLEAD_DNS_SERVERS.'
    return error('resolver_unreachable', message)
  }
  if (failure === 'dnssec') {
    const advice = 'Sign the zone anew, or remove the DS record at the registrar until that is done.'
    return error(
      'dnssec_broken',
      `The DNSSEC signatures of ${readable(name)} are not valid, so resolvers refuse its records. ${advice}`,
    )
  }
  // The zone is known only for the domain, not for the target of a CNAME record.
  if (zone === null || name !== facts.host) return other
  return delegationProblem(zone) ?? other
}

function delegationProblem(zone: NonNullable<CheckFacts['zone']>): CheckProblem | undefined {
  const { name, answers, unresolved } = zone
  if (answers.some(({ state }) => state === 'answers')) return undefined
  const lame = answers.filter(isLame)
  if (lame.length > 0) return error('lame_delegation', lameMessage(name, lame))
  const silent = answers.filter(({ state }) => state === 'silent')
  if (silent.length > 0)
    return error('name_servers_silent', silentMessage(name, silent, 'Nobody can read its records.'))
  if (zone.private.length > 0) {
    const message = `The name servers ${listed(zone.private.map(readable))} of ${name} have no public addresses, so nobody can ask them.`
    return error('name_servers_private', `${message} Set public name servers at the registrar.`)
  }
  if (unresolved.length === 0) return undefined
  const message = `The name servers ${listed(unresolved.map(readable))} of ${name} have no addresses, so nobody can ask them.`
  return error('name_servers_unresolved', `${message} Correct them at the registrar of ${name}.`)
}

function staleProblem({ host, ipv4, ipv6, zone }: CheckFacts): CheckProblem {
  const seconds = Math.max(ipv4.ttl, ipv6.ttl)
  return warning(
    'resolver_stale',
    `The records of ${host} are right at the name servers of ${zone?.name ?? host}, but the DNS server asked still has an older answer ` +
      `for up to ${lasting(seconds)}. Some visitors get the old one until then; there is nothing to do but wait.`,
  )
}

function certificateProblems(facts: CheckFacts): CheckProblem[] {
  return [...caaProblems(facts), ...challengeProblems(facts)]
}

function caaProblems(facts: CheckFacts): CheckProblem[] {
  const { caa, authority, domain } = facts
  if (caa === null || authority === null) return []
  const wildcard = isWildcard(domain.name)
  const [identity = ''] = authority.identities
  if (caa.failure !== null) {
    // Another problem reports servers that give no records at all.
    if (foundAddresses(facts).length === 0) return []
    const reason = caa.failure === 'timeout' ? 'the name servers give no answer' : `the answer is ${caa.failure}`
    const message = `The CAA records of ${caa.at} cannot be read (${reason}), and the authority issues nothing then.`
    return [
      error(
        'caa_unreadable',
        `${message} Let the name servers answer queries for CAA, with no records or with ${identity}.`,
      ),
    ]
  }
  const refusal = caaRefusal(caa.records, authority, { isWildcard: wildcard, method: wildcard ? 'dns-01' : 'http-01' })
  if (refusal === null) return []
  const code = refusal.isForWildcards ? 'caa_forbids_wildcards' : 'caa_forbids'
  return [error(code, caaMessage(facts, caa, identity, refusal))]
}

function caaMessage(
  { domain, authority }: CheckFacts,
  { at, isElsewhere }: CaaFacts,
  identity: string,
  refusal: CaaRefusal,
): string {
  const tag = refusal.isForWildcards ? 'issuewild' : 'issue'
  const named = listed(refusal.named.map(readable))
  const add = `Add the CAA record 0 ${tag} "${identity}" at ${at}.`
  // The DNS server may know names that not everybody may read.
  if (isElsewhere) {
    return `The CAA records of the name to which ${at} is a CNAME do not allow a certificate for ${domain.name}. Let them allow ${identity}.`
  }
  switch (refusal.kind) {
    case 'critical':
      return `A CAA record of ${at} has the property ${named}, marked critical, which authorities do not know: they refuse ${domain.name}. Remove it.`
    case 'account': {
      const account = authority?.accountUri
      return `The CAA records of ${at} allow ${identity} only the account ${named}, and ours is ${account}. Set accounturi to ours, or remove it.`
    }
    case 'method':
      return (
        `The CAA records of ${at} allow ${identity} only the proofs ${named}, and ${domain.name} is proved by ` +
        `${isWildcard(domain.name) ? 'dns-01' : 'http-01'}. Add it to validationmethods.`
      )
    default:
      return (
        `The CAA records of ${at} allow ${named === '' ? 'nobody' : `only ${named}`} to issue ` +
        `${refusal.isForWildcards ? 'wildcard certificates' : 'certificates'} for ${baseOf(domain.name)}. ${add}`
      )
  }
}

function challengeProblems({ challenge, domain, ipv4 }: CheckFacts): CheckProblem[] {
  const target = domain.challengeTarget
  if (challenge === null || target === null || challenge.targets.includes(target)) return []
  const at = challengeName(domain.name)
  const set = `Set for ${at}: CNAME ${target}.`
  const [other] = challenge.targets
  // The CNAME record of the wildcard also covers this name while it has no CNAME record.
  if (other !== undefined && other !== ipv4.names[1]) {
    const message = `${at} is a CNAME of ${readable(other)}, and not of ${target}, where this server proves ${domain.name} to the authority.`
    return [error('challenge_elsewhere', `${message} ${set}`)]
  }
  const reason = challenge.failure === null ? 'has no CNAME record' : `cannot be read (${challenge.failure})`
  const message = `${at} ${reason}. A wildcard is proved to the authority by a record there.`
  return [error('challenge_missing', `${message} ${set}`)]
}
