import type { Known } from './desired.ts'
import { assertEdgeCall } from './protocol/edge-calls.ts'
import type { AppNames, HostName } from './protocol/host-names.ts'
import type { Call } from './protocol/rpc.ts'

/**
 * The names, certificates and answers that the gateway has for an edge in front of it. All calls may be repeated, and take
 * effect in every later gateway too. Host names are in lower case, without the root's dot; other ones throw a `TypeError`.
 */
export interface EdgeGateway {
  /**
   * Replaces all further host names of an app, which need not be open yet. One that another app has is taken from it. `close`
   * frees them.
   */
  name(appId: string, names: readonly HostName[]): Promise<void>
  /**
   * Shows this certificate for a name, or for `*.` and a name, which covers one label; null removes it.
   *
   * @param pem the private key, and the certificates from the name's own upwards
   */
  certify(name: string, pem: string | null): Promise<void>
  /** Answers with a text at a path below `/.well-known/`, for every host that the edge passes on; null removes it. */
  answerAt(path: string, body: string | null): Promise<void>
  /**
   * Calls the listener when somebody asks for the certificate of a name that is served here and has none: at most once in
   * 10 s for a name. A wildcard that has a name stands for all that it covers. Returns a function that removes the listener.
   */
  onUncertified(listener: (hostname: string) => void): () => void
  /** The names of all apps, also of apps that are not open. */
  names(): readonly AppNames[]
  /** The names with a certificate, also with one that an earlier server has left. */
  certificates(): readonly string[]
  /** The paths with an answer, also with one that an earlier server has left. */
  answers(): readonly string[]
}

export function createEdgeClient({
  call,
  onUncertified,
  known,
}: {
  readonly call: Call
  readonly onUncertified: EdgeGateway['onUncertified']
  /** Changed as soon as a call is made: a gateway that starts meanwhile has what was asked for. */
  readonly known: Known
}): EdgeGateway & { forgetAll(): void } {
  return {
    async name(appId, names) {
      assertEdgeCall.name({ appId, names })
      known.names.set(appId, names)
      await call('name', { appId, names })
    },
    async certify(name, pem) {
      assertEdgeCall.certify({ name, pem })
      if (pem === null) known.certificates.delete(name)
      else known.certificates.set(name, pem)
      await call('certify', { name, pem })
    },
    async answerAt(path, body) {
      assertEdgeCall.answerAt({ path, body })
      if (body === null) known.answers.delete(path)
      else known.answers.set(path, body)
      await call('answerAt', { path, body })
    },
    onUncertified,
    names: () => known.names.all(),
    certificates: () => [...known.certificates.keys()],
    answers: () => [...known.answers.keys()],
    forgetAll() {
      for (const { appId } of known.names.all()) known.names.set(appId, [])
      known.certificates.clear()
      known.answers.clear()
    },
  }
}
