import type { DesiredState } from './desired.ts'
import { assertEdgeCall } from './protocol/edge-calls.ts'
import type { AppNames, HostName } from './protocol/host-names.ts'
import type { Call } from './protocol/rpc.ts'

/**
 * Names, certificates and answers for the edge. All calls are idempotent, and apply to later gateways, too. Host names
 * are in lower case without the root's dot; other names throw a `TypeError`.
 */
export interface EdgeGateway {
  /**
   * Replaces the additional host names of an app, which need not be open yet. A name of another app moves to this app.
   * `close` frees the names.
   */
  name(appId: string, names: readonly HostName[]): Promise<void>
  /**
   * Shows this certificate for a name, or for `*.` and a name, which covers one label; null removes it.
   *
   * @param pem the private key, then the chain, which starts with the certificate of the name
   */
  certify(name: string, pem: string | null): Promise<void>
  /** Answers with a text at a path below `/.well-known/`, on every host of the edge; null removes the answer. */
  answerAt(path: string, body: string | null): Promise<void>
  /**
   * Calls the listener when a visitor asks for the certificate of a served name that has none: at most once in 10 s for
   * each name. A wildcard name stands for all names that it covers. Returns a function that removes the listener.
   */
  onUncertified(listener: (hostname: string) => void): () => void
  /** Returns the names of all apps, including apps that are not open. */
  names(): readonly AppNames[]
  /** Returns the names with a certificate, including certificates from an earlier server. */
  certificates(): readonly string[]
  /** Returns the paths with an answer, including answers from an earlier server. */
  answers(): readonly string[]
}

export function createEdgeClient({
  call,
  onUncertified,
  desired,
}: {
  readonly call: Call
  readonly onUncertified: EdgeGateway['onUncertified']
  /** Updated when a call starts, so that a gateway that starts during the call gets the change. */
  readonly desired: DesiredState
}): EdgeGateway & { forgetAll(): void } {
  return {
    async name(appId, names) {
      assertEdgeCall.name({ appId, names })
      desired.names.set(appId, names)
      await call('name', { appId, names })
    },
    async certify(name, pem) {
      assertEdgeCall.certify({ name, pem })
      if (pem === null) desired.certificates.delete(name)
      else desired.certificates.set(name, pem)
      await call('certify', { name, pem })
    },
    async answerAt(path, body) {
      assertEdgeCall.answerAt({ path, body })
      if (body === null) desired.answers.delete(path)
      else desired.answers.set(path, body)
      await call('answerAt', { path, body })
    },
    onUncertified,
    names: () => desired.names.all(),
    certificates: () => [...desired.certificates.keys()],
    answers: () => [...desired.answers.keys()],
    forgetAll() {
      for (const { appId } of desired.names.all()) desired.names.set(appId, [])
      desired.certificates.clear()
      desired.answers.clear()
    },
  }
}
