/** The answer to a challenge that proves that a name is this server's. */
export interface ChallengeAnswer {
  /** The name of the authorization, which has no `*.`. */
  readonly name: string
  readonly token: string
  /** The text at the path for http-01, and that of the TXT record for dns-01. */
  readonly value: string
}

/**
 * One way to prove that names are this server's. `prepare` resolves when the answer can be seen, as far as the server can tell, and
 * rejects with `AttemptError` when it cannot, before the authority looks. `clean` never rejects, and is called in any
 * case, also when the signal has aborted.
 */
export interface ChallengeKind {
  readonly type: 'http-01' | 'dns-01'
  prepare(answer: ChallengeAnswer, signal: AbortSignal): Promise<void>
  clean(answer: ChallengeAnswer, signal: AbortSignal): Promise<void>
}

/** The ways that this server has; `dns` is null where it cannot change DNS. */
export interface ChallengeKinds {
  readonly http: ChallengeKind
  readonly dns: ChallengeKind | null
}
