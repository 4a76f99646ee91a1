import { decodeJwt, decodeProtectedHeader, type JWTPayload, type ProtectedHeaderParameters } from 'jose'

/** The accepted signature algorithms: issuers use them, and none works with a shared key. */
export const algorithms: readonly string[] = ['RS256', 'ES256']

/** Header members that name a key or change the meaning of the token. Only the trusted issuer provides keys. */
const forbidden = ['jku', 'jwk', 'x5u', 'x5c', 'crit', 'b64', 'zip', 'enc'] as const

const longestName = 255

/**
 * Returns the issuer that a token claims to come from, before anything is verified.
 *
 * @throws TokenRefused when the form or the header is not valid for an ID token (RFC 7515, RFC 7519)
 */
export function issuerOf(token: string): string {
  if (!/^[\w-]+\.[\w-]+\.[\w-]*$/.test(token)) throw new TokenRefused('malformed', 'The token is not a signed JWT.')
  const { header, claims } = decode(token)
  checkHeader(header)
  const { iss } = claims
  if (typeof iss !== 'string' || iss.length > longestName || !/^[\x21-\x7e]+$/.test(iss)) {
    throw new TokenRefused('claim', 'The claim iss of the token is missing, or no address.')
  }
  return iss
}

function decode(token: string): { header: ProtectedHeaderParameters; claims: JWTPayload } {
  try {
    return { header: decodeProtectedHeader(token), claims: decodeJwt(token) }
  } catch {
    throw new TokenRefused('malformed', 'The header or the claims of the token are not JSON.')
  }
}

function checkHeader(header: ProtectedHeaderParameters): void {
  const { alg, typ, kid } = header
  if (typeof alg !== 'string' || !algorithms.includes(alg)) {
    throw new TokenRefused('algorithm', `The token must be signed with ${algorithms.join(' or ')}.`)
  }
  const found = forbidden.find((name) => Object.hasOwn(header, name))
  if (found !== undefined) {
    throw new TokenRefused('header', `The header of the token has ${found}; keys come only from the issuer.`)
  }
  if (typ !== undefined && !(typeof typ === 'string' && /^jwt$/i.test(typ))) {
    throw new TokenRefused('header', 'The token is of another type than JWT.')
  }
  if (typeof kid !== 'string' || kid === '' || kid.length > longestName) {
    throw new TokenRefused('header', 'The header of the token must name a key by kid.')
  }
}

/** The reasons for refusing a token. They are part of the API: `details.reason`. */
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

/** A refused token. The message is for the author of the workflow and contains no secret. */
export class TokenRefused extends Error {
  override readonly name = 'TokenRefused'
  readonly reason: RefusalReason

  constructor(reason: RefusalReason, message: string) {
    super(message)
    this.reason = reason
  }
}
