/** The answer to a challenge that proves that a name is this server's. */
export interface ChallengeAnswer {
  /** Of the authorization: without `*.`. */
  readonly name: string
  readonly token: string
  /** For http-01 the text at the path, for dns-01 the TXT record. */
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
