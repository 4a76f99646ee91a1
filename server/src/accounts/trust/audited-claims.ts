import type { JWTPayload } from 'jose'

const mostClaims = 60
const longestValue = 300

/** Returns the claims of a token as the audit log keeps them: texts, numbers and truth values, of limited length. */
export function claimsForAudit(claims: Readonly<JWTPayload>): Record<string, string | number | boolean> {
  return Object.fromEntries(
    Object.entries(claims)
      .slice(0, mostClaims)
      .map(([name, value]) => [
        plain(name),
        typeof value === 'number' || typeof value === 'boolean'
          ? value
          : plain(typeof value === 'string' ? value : JSON.stringify(value)),
      ]),
  )
}

/** Returns a text of limited length that PostgreSQL can store and a terminal can show. */
export function plain(text: string): string {
  return text
    .toWellFormed()
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, longestValue)
    .toWellFormed()
}
