/** The reasons for which a token is not exchanged. They are part of the API: `details.reason`. */
export type RefusalReason =
  | 'malformed'
  | 'algorithm'
  | 'header'
  | 'issuer_not_trusted'
  | 'issuer_unreachable'
  | 'issuer_slow'
  | 'issuer_redirects'
  | 'issuer_answer'
  | 'too_many_keys'
  | 'unknown_key'
  | 'ambiguous_key'
  | 'unusable_key'
  | 'signature'
  | 'claim'
  | 'audience'
  | 'expired'
  | 'not_yet_valid'
  | 'lifetime'
  | 'reused'
  | 'repository'
  | 'repository_id'
  | 'branch'
  | 'tag'
  | 'environment'
  | 'event'
  | 'workflow'
  | 'other_claim'

/** Thrown when a token is not exchanged. The message is for the author of the workflow, and has nothing secret. */
export class TokenRefused extends Error {
  override readonly name = 'TokenRefused'
  readonly reason: RefusalReason

  constructor(reason: RefusalReason, message: string) {
    super(message)
    this.reason = reason
  }
}
