import { Resolver as SystemResolver } from 'node:dns'
import { isIP } from 'node:net'
import { type AskAuthority, findZone, type Zone } from './delegation.ts'
import { DnsError, type DnsServer } from './exchange.ts'
import type { DnsAnswer, DnsQuestion, DnsType } from './message.ts'
import { query } from './query.ts'
import { type Resolution, resolveName } from './resolve.ts'

/** Asks the Domain Name System: the recursive servers of this machine, and the authoritative servers of a name. */
export interface Resolver {
  /**
   * Resolves a name by the recursive servers: each is asked when the one before does not answer or fails. CNAME records are
   * followed. Rejects only when the signal aborts.
   */
  resolve(name: string, type: DnsType, signal: AbortSignal): Promise<Resolution>
  /**
   * Returns the zone that a name is in and its authoritative servers, as its parent names them where they do not answer
   * themselves; null when the parents do not answer either. Rejects only when the signal aborts.
   */
  zoneOf(name: string, signal: AbortSignal): Promise<Zone | null>
  /**
   * Asks an authoritative server for what it knows itself. Rejects with `DnsError` when it does not answer, and without a
   * message to it when its address is not allowed.
   */
  readonly askAuthority: AskAuthority
}

export interface ResolverOptions {
  /** The recursive servers; null for those of the system. */
  readonly servers: readonly DnsServer[] | null
  /** Tells if messages may be sent to an authoritative server: tenants choose these. */
  readonly allows: (address: string) => boolean
  /** The port of authoritative servers. */
  readonly authorityPort?: number
}

export function createResolver({ servers, allows, authorityPort = 53 }: ResolverOptions): Resolver {
  let lastAnswered = ''

  const ask = async (question: DnsQuestion, signal: AbortSignal): Promise<DnsAnswer> => {
    const all = (servers ?? systemServers()).toSorted(
      (one, other) => Number(keyOf(other) === lastAnswered) - Number(keyOf(one) === lastAnswered),
    )
    let failed: DnsAnswer | undefined
    let silent = new DnsError('unreachable', 'No DNS server is configured.')
    for (const server of all) {
      try {
        const answer = await query(server, question, signal)
        if (answer.rcode === 'NOERROR' || answer.rcode === 'NXDOMAIN') {
          lastAnswered = keyOf(server)
          return answer
        }
        failed = answer
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof DnsError)) throw error
        silent = error
      }
    }
    if (failed === undefined) throw silent
    return failed
  }

  const askAuthority: AskAuthority = async (address, { name, type }, signal) => {
    if (!allows(address)) throw new DnsError('unreachable', `${address} is not a public address.`)
    return query({ address, port: authorityPort }, { name, type, recursion: false }, signal)
  }

  return {
    resolve: (name, type, signal) => resolveName(ask, name, type, signal),
    zoneOf: (name, signal) => findZone({ ask, askAuthority, allows }, name.toLowerCase(), signal),
    askAuthority,
  }
}

const keyOf = ({ address, port }: DnsServer): string => `${address} ${port}`

/** The servers of `/etc/resolv.conf`, which are read anew: networks change. */
function systemServers(): DnsServer[] {
  return new SystemResolver().getServers().flatMap((text) => {
    const [, bracketed, plain, port = '53'] = /^(?:\[([^\]]+)\]|(\d+(?:\.\d+){3}))(?::(\d+))?$/.exec(text) ?? []
    const address = bracketed ?? plain ?? text
    return isIP(address) === 0 ? [] : [{ address, port: Number(port) }]
  })
}
