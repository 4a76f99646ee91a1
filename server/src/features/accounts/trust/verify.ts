import { createHash } from 'node:crypto'
import { errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import type { IssuerKeys } from './issuer-keys.ts'
import { algorithms, type RefusalReason, TokenRefused } from './token.ts'

export interface SignedToken {
  readonly claims: JWTPayload
  /** The reason to refuse the token although its issuer has signed it. */
  readonly refusal: TokenRefused | undefined
}

/** The allowed difference between the clocks of issuers and the server. */
const toleranceSeconds = 60
/** The longest lifetime of a token. No token of a workflow run lives longer. */
const mostSeconds = 24 * 3600

/**
 * Verifies the signature of a token, then its issuer, audience and times.
 *
 * @param audiences the addresses of this server
 * @throws TokenRefused when the issuer has not signed it
 */
export async function verifyToken(
  issuerKeys: IssuerKeys,
  token: string,
  { issuer, audiences }: { readonly issuer: string; readonly audiences: readonly string[] },
): Promise<SignedToken> {
  const options = {
    algorithms: [...algorithms],
    issuer,
    audience: [...audiences],
    clockTolerance: toleranceSeconds,
    maxTokenAge: mostSeconds,
    requiredClaims: ['exp', 'iat', 'sub'],
  }
  const verify = (keys: JWTVerifyGetKey) => jwtVerify(token, keys, options)
  try {
    const { payload } = await verify(await issuerKeys.of(issuer)).catch(async (error: unknown) => {
      const renewed = error instanceof errors.JWKSNoMatchingKey ? await issuerKeys.renew(issuer) : undefined
      if (renewed === undefined) throw error
      return verify(renewed)
    })
    return { claims: payload, refusal: refusalOf(payload) }
  } catch (error) {
    if (error instanceof TokenRefused) throw error
    // These two errors are thrown only after the signature was verified.
    if (error instanceof errors.JWTExpired || error instanceof errors.JWTClaimValidationFailed) {
      return { claims: error.payload, refusal: claimRefusal(error, audiences) }
    }
    throw signatureRefusal(error)
  }
}

/** Refuses tokens that the library accepts: a lifetime that is too long, and several audiences. */
function refusalOf({ aud, exp = 0, iat = 0, jti }: JWTPayload): TokenRefused | undefined {
  if (Array.isArray(aud) && aud.length > 1) {
    return new TokenRefused('audience', 'The token is meant for other servers, too; ask for one audience.')
  }
  if (exp - iat > mostSeconds) return new TokenRefused('lifetime', 'The token lives longer than a day.')
  if (jti !== undefined && (typeof jti !== 'string' || jti === '')) return claimOfWrongType('jti')
  return undefined
}

export function claimOfWrongType(name: string): TokenRefused {
  return new TokenRefused('claim', `The claim ${name} of the token is not of the right type.`)
}

function claimRefusal(
  error: errors.JWTExpired | errors.JWTClaimValidationFailed,
  audiences: readonly string[],
): TokenRefused {
  const { claim, reason } = error
  if (claim === 'aud' && reason === 'check_failed') {
    return new TokenRefused('audience', `The token is not meant for this server; its audience must be ${audiences[0]}.`)
  }
  if (error instanceof errors.JWTExpired) return new TokenRefused('expired', 'The token has expired.')
  if ((claim === 'nbf' || claim === 'iat') && reason === 'check_failed') {
    return new TokenRefused('not_yet_valid', 'The token is not valid yet. Check the clock of this server.')
  }
  if (reason === 'missing') return new TokenRefused('claim', `The token lacks the claim ${claim}.`)
  return claimOfWrongType(claim)
}

const signatureRefusals: readonly (readonly [new (...args: never[]) => Error, RefusalReason, string])[] = [
  [errors.JWKSNoMatchingKey, 'unknown_key', 'The issuer has no key with the kid of the token.'],
  [errors.JWKSMultipleMatchingKeys, 'ambiguous_key', 'The issuer has several keys with the kid of the token.'],
  [errors.JWSSignatureVerificationFailed, 'signature', 'The signature of the token is wrong.'],
  [errors.JWSInvalid, 'malformed', 'The token is not a signed JWT.'],
  [errors.JWTInvalid, 'malformed', 'The claims of the token are not a JSON object.'],
]

function signatureRefusal(error: unknown): TokenRefused {
  const found = signatureRefusals.find(([type]) => error instanceof type)
  if (found !== undefined) return new TokenRefused(found[1], found[2])
  // The other errors concern the key: too short, on another curve, or unreadable.
  return new TokenRefused('unusable_key', "The issuer's key with the kid of the token cannot be used.")
}

/**
 * Identifies a token by its issuer and its `jti`, or else by the signed text. The signature is left out, because one
 * text can have several valid signatures.
 */
export function identityHash(issuer: string, token: string, { jti }: JWTPayload): Buffer {
  const named = typeof jti === 'string' ? ['jti', jti] : ['text', token.slice(0, token.lastIndexOf('.'))]
  return createHash('sha256')
    .update(JSON.stringify([issuer, ...named]))
    .digest()
}

export function usableUntil({ exp = 0 }: JWTPayload): Date {
  // The clock of the database may differ from the server's.
  return new Date((exp + toleranceSeconds + 600) * 1000)
}
