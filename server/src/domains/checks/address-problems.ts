import { isIPv6 } from 'node:net'
import { addressesIn, type CheckFacts, foundAddresses, type ProbeFacts } from './facts.ts'
import { type CheckProblem, error, warning } from './problem.ts'
import { proxyIn } from './proxies.ts'
import { howToSet } from './records.ts'
import { isAliasOfUs, otherAppOf } from './verdict.ts'
import { addressKind, listed, readable, shown } from './words.ts'

/** Finds addresses of a name that are not this server's. */
export function addressProblems(facts: CheckFacts): CheckProblem[] {
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

/** The addresses are those of other machines. */
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

/** Finds what keeps requests for port 80 of this server's own addresses from arriving. */
export function portProblems({ probes, domain, own }: CheckFacts): CheckProblem[] {
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

/** A server that answers for our own host at the same address is in the same way for this one alone; else from here alone. */
function otherServer(name: string, where: string, { result, ofServer }: ProbeFacts): CheckProblem {
  const status = result.outcome === 'other' ? `, status ${result.status}` : ''
  const software = result.outcome === 'other' ? readable(result.headers['server'] ?? '') : ''
  const message =
    `Another web server${software === '' ? '' : ` (${software}${status})`} answers for ${name} at port 80 of ${where}. The authority proves ` +
    'the name there: stop that server, or let it pass on requests for the name to this one.'
  const isOnlyThis = ofServer?.outcome === 'reached'
  return isOnlyThis ? error('port_80_other_server', message) : warning('port_80_other_server', message)
}
