import type { Server as NetServer } from 'node:net'
import type { Gate } from '../../platform/gates.ts'
import { hostnameOf } from '../http1/target.ts'
import {
  type EdgeCall,
  type EdgeCallName,
  type EdgeOptions,
  type EdgeState,
  isHostname,
} from '../protocol/edge-calls.ts'
import { createHostNames, type HostNames, wildcardOf } from '../protocol/host-names.ts'
import type { Log } from '../protocol/log.ts'
import type { Handlers } from '../protocol/rpc.ts'
import type { AppProxy } from '../proxy/proxy.ts'
import type { AppTable } from './apps.ts'
import { createEdgeHandler, type Found } from './edge-requests.ts'
import { createListener, type Listener, type Share } from './listener.ts'

export interface Served {
  /** The name that matched, which may be a wildcard. */
  readonly name: string
  /** The same object for all names of an app, and one object for all names of the server. */
  readonly owner: object
}

/** Answers requests from the edge, which ends TLS, and knows what the edge serves. */
export interface Edge {
  readonly handlers: Pick<Handlers<NetServer>, EdgeCallName>
  readonly listener: Listener | null
  /** Finds an open app on the shared port by its address, and without an edge also by a further host name. */
  findAtPort(authority: string): Found | null
  /** Returns how a host is served here; null when it is not. `hostname` is in lower case, without the root's dot. */
  servedAs(hostname: string): Served | null
  /** Returns the certificate of a host or of the wildcard above it, with its key, as PEM. */
  certificateOf(hostname: string): Buffer | null
  state(): EdgeState
  /**
   * Returns the calls that copy the names and answers of this process to another process, and the certificates if
   * wanted.
   */
  calls(what: { readonly withCertificates: boolean }): EdgeCall[]
  forget(appId: string): void
}

export interface EdgeParts {
  readonly options: EdgeOptions | null
  readonly log: Log
  readonly table: AppTable
  readonly proxy: AppProxy
  readonly gate: Gate
  readonly share: Share | undefined
  readonly onChanged: () => void
}

export function createEdge({ options, table, onChanged, ...parts }: EdgeParts): Edge {
  const names = createHostNames()
  const certificates = new Map<string, Buffer>()
  const answers = new Map<string, string>()
  const find = createDirectory(options, table, names)
  const listener =
    options &&
    createListener({
      log: parts.log,
      gate: parts.gate,
      share: parts.share,
      handle: createEdgeHandler({ find, answers, proxy: parts.proxy, httpsPort: options.httpsPort }),
    })

  return {
    handlers: {
      async name(parameters) {
        names.set(parameters.appId, parameters.names)
        onChanged()
        return null
      },
      async certify({ name, pem }) {
        if (pem === null) certificates.delete(name)
        else certificates.set(name, Buffer.from(pem))
        onChanged()
        return null
      },
      async answerAt({ path, body }) {
        if (body === null) answers.delete(path)
        else answers.set(path, body)
        return null
      },
    },
    listener,
    findAtPort: options === null ? find : createDirectory(options, table, createHostNames()),
    servedAs(hostname) {
      if (options?.hosts.includes(hostname)) return { name: hostname, owner: options }
      const found = find(hostname)
      return found && { name: found.hostname, owner: found.app }
    },
    certificateOf: (hostname) => certificates.get(hostname) ?? certificates.get(wildcardOf(hostname)) ?? null,
    state: () => ({ names: names.all(), certificates: [...certificates.keys()], answers: [...answers.keys()] }),
    calls: ({ withCertificates }) => [
      ...names.all().map((parameters) => ({ name: 'name', parameters }) as const),
      ...[...answers].map(([path, body]) => ({ name: 'answerAt', parameters: { path, body } }) as const),
      ...(withCertificates ? [...certificates] : []).map(
        ([name, pem]) => ({ name: 'certify', parameters: { name, pem: pem.toString() } }) as const,
      ),
    ],
    forget(appId) {
      names.set(appId, [])
      onChanged()
    },
  }
}

/** Finds open apps, by address first. The server's own hosts belong to no app. */
function createDirectory(options: EdgeOptions | null, table: AppTable, names: HostNames) {
  const reserved = new Set(options?.hosts)
  return (authority: string): Found | null => {
    const hostname = hostnameOf(authority)
    if (reserved.has(hostname)) return null
    const addressed = table.byAuthority(authority)
    if (addressed !== undefined) return { app: addressed, hostname, redirectTo: null }
    const named = names.find(hostname)
    // A wildcard covers only valid host names.
    if (named === null || (named.hostname.startsWith('*') && !isHostname(hostname))) return null
    const app = table.get(named.appId)
    return app === undefined ? null : { ...named, app }
  }
}
