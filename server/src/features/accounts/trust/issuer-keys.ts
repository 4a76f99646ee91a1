import { createLocalJWKSet, type JWK, type JWTVerifyGetKey } from 'jose'
import type { Dispatcher } from 'undici'
import type { Outbound } from '../../../platform/outbound.ts'
import { algorithms, TokenRefused } from './token.ts'

export interface IssuerKeys {
  /** Returns a function that finds the key of a token. Rejects with `TokenRefused`. */
  of(issuer: string): Promise<JWTVerifyGetKey>
  /**
   * Reads the keys again when a token names an unknown key. Returns `undefined` shortly after an earlier reading,
   * because anybody can send tokens with invented names of keys.
   */
  renew(issuer: string): Promise<JWTVerifyGetKey | undefined>
}

const mostKeys = 100
/** The longest time for which keys are used after an issuer has withdrawn them. */
const keptMs = 10 * 60_000
const renewEveryMs = 60_000
/** The time before an unreachable issuer is asked again. */
const failedMs = 5_000
const mostIssuers = 1_000

interface CachedKeys {
  readonly keys: Promise<JWTVerifyGetKey>
  readonly until: number
  readonly renewedAt: number
}

/** @param now a clock in milliseconds that never goes back */
export function createIssuerKeys(outbound: Outbound, now: () => number = () => performance.now()): IssuerKeys {
  const cache = new Map<string, CachedKeys>()

  const read = (issuer: string, renewedAt: number, former?: CachedKeys): Promise<JWTVerifyGetKey> => {
    const reading = readKeys(issuer, outbound)
    const keys = former === undefined ? reading : reading.catch(() => former.keys)
    const oldest = cache.size >= mostIssuers ? cache.keys().next().value : undefined
    if (oldest !== undefined) cache.delete(oldest)
    // The entry is set at once, so that other tokens wait for the same answer.
    cache.set(issuer, { keys, until: Number.POSITIVE_INFINITY, renewedAt })
    const keepUntil = (until: number) => void cache.set(issuer, { keys, until, renewedAt })
    reading.then(
      () => keepUntil(now() + keptMs),
      () => keepUntil(former?.until ?? now() + failedMs),
    )
    return keys
  }

  return {
    of(issuer) {
      const found = cache.get(issuer)
      return found !== undefined && found.until > now()
        ? found.keys
        : read(issuer, found?.renewedAt ?? Number.NEGATIVE_INFINITY)
    },

    async renew(issuer) {
      const found = cache.get(issuer)
      if (found !== undefined && now() - found.renewedAt < renewEveryMs) return undefined
      return read(issuer, now(), found)
    },
  }
}

/** Reads the metadata of an issuer (OpenID Connect Discovery 1.0, section 4) and its keys (RFC 7517). */
async function readKeys(issuer: string, outbound: Outbound): Promise<JWTVerifyGetKey> {
  const document = await fetchJson(new URL(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`), outbound)
  if (document['issuer'] !== issuer) {
    throw new TokenRefused('issuer_answer', `${issuer} says in its configuration that it is another issuer.`)
  }
  const jwksUri = document['jwks_uri']
  if (typeof jwksUri !== 'string' || !URL.canParse(jwksUri) || new URL(jwksUri).protocol !== 'https:') {
    throw new TokenRefused('issuer_answer', `${issuer} names no https address of its keys.`)
  }
  const { keys } = await fetchJson(new URL(jwksUri), outbound)
  if (!Array.isArray(keys)) throw new TokenRefused('issuer_answer', `${issuer} publishes no list of keys.`)
  if (keys.length > mostKeys) {
    throw new TokenRefused('too_many_keys', `${issuer} publishes more than ${mostKeys} keys.`)
  }
  return createLocalJWKSet({ keys: keys.filter(isUsable) })
}

function isUsable(key: unknown): key is JWK {
  const { kty, kid, use, alg, d } = Object(key) as JWK
  return (
    (kty === 'RSA' || kty === 'EC') &&
    typeof kid === 'string' &&
    (use === undefined || use === 'sig') &&
    (alg === undefined || algorithms.includes(alg)) &&
    d === undefined
  )
}

/** The total time for one answer. */
const timeoutMs = 5_000
const mostBytes = 256 * 1024

/**
 * Reads a JSON object from an issuer if the outbound rule allows its address. Follows no redirect, and reads at most
 * 256 KB within 5 s.
 */
async function fetchJson(url: URL, outbound: Outbound): Promise<Readonly<Record<string, unknown>>> {
  const text = await fetchText(url, outbound).catch((error: unknown) => {
    if (error instanceof TokenRefused) throw error
    if (error instanceof Error && error.name === 'TimeoutError') {
      throw new TokenRefused('issuer_slow', `${url.host} did not answer within ${timeoutMs / 1000} s.`)
    }
    // The error is not passed on: it could reveal names and addresses of the server's own network.
    throw new TokenRefused('issuer_unreachable', `${url.host} cannot be reached from this server.`)
  })
  const value = parse(text)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>
  }
  throw new TokenRefused('issuer_answer', `${url.host} answered with no JSON object.`)
}

async function fetchText(url: URL, outbound: Outbound): Promise<string> {
  if (url.port !== '' && !outbound.allowsPort(Number(url.port))) throw new Error('the port is not allowed')
  // A literal address needs no lookup, so `lookup` below would not check it.
  await outbound.resolve(url.hostname)
  // Loaded for the first token: a server without trust rules saves the memory.
  const { Agent, request } = await import('undici')
  const agent = new Agent({ connect: { lookup: outbound.lookup, timeout: timeoutMs } })
  try {
    const response = await request(url, {
      dispatcher: agent,
      headers: { accept: 'application/json' },
      signal: AbortSignal.timeout(timeoutMs),
    })
    return await read(url, response)
  } finally {
    await agent.destroy()
  }
}

async function read(url: URL, { statusCode, body }: Dispatcher.ResponseData): Promise<string> {
  if (statusCode >= 300 && statusCode < 400) {
    throw new TokenRefused('issuer_redirects', `${url.host} redirects, which is not followed.`)
  }
  if (statusCode !== 200) throw new TokenRefused('issuer_answer', `${url.host} answered with ${statusCode}.`)
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > mostBytes) {
      throw new TokenRefused('issuer_answer', `${url.host} answered with more than ${mostBytes / 1024} KB.`)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
