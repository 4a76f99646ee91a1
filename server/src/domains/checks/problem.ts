import type { DomainProblem } from '../tables.ts'

/** The problems of a domain by their codes, the most telling first. They are stable, for programs and tests. */
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

export interface CheckProblem extends DomainProblem {
  readonly code: ProblemCode
}

const order: readonly ProblemCode[] = [...traffic, ...ownership, ...certificate]

export const error = (code: ProblemCode, message: string): CheckProblem => ({ code, message, severity: 'error' })
export const warning = (code: ProblemCode, message: string): CheckProblem => ({ code, message, severity: 'warning' })

/** Errors before warnings, and the most telling first. */
export const inOrder = (problems: readonly CheckProblem[]): CheckProblem[] =>
  problems.toSorted(
    (one, other) =>
      Number(one.severity === 'warning') - Number(other.severity === 'warning') ||
      order.indexOf(one.code) - order.indexOf(other.code),
  )

/** True for a problem that keeps visitors from arriving here. */
export const isInTheWay = ({ code, severity }: CheckProblem): boolean =>
  severity === 'error' && (traffic as readonly string[]).includes(code)
