import { type Answered, foreignAnswer, type Retries, readError, readJson, withRetries } from './client-requests.ts'

/** A key that is valid for some minutes and may deploy to one project. */
export interface ShortLivedKey {
  readonly apiKey: string
  /** RFC 3339. */
  readonly expiresAt: string
}

/** The CI gave no token. The cause says why. */
export class NoTokenError extends Error {
  override readonly name = 'NoTokenError'
}

export interface ExchangeOptions {
  /** The server's address without `/v1`. */
  readonly address: string
  readonly projectId: string
  /** Requests a token with this audience from the CI. Called for every attempt, because a token is valid only once. */
  readonly requestToken: (audience: string) => Promise<string>
  /** Called with every key before it is used. */
  readonly onKey?: (key: ShortLivedKey) => void
  /** The number of repetitions for a waiting caller after no answer, or a status of 429 or 5xx. Defaults to 6. */
  readonly retries?: number
  /** Called before each repetition with the error. Throw to stop repetitions. */
  readonly onRetry?: (error: unknown) => void
  readonly fetch?: typeof fetch
}

export interface KeyExchange {
  /**
   * Resolves to a key that has used at most two thirds of its lifetime, or to any unexpired key if no other key is
   * available. Rejects with `NoTokenError`, with `ApiError` when the server refuses the token, with the error of
   * `fetch`, or with the reason of the signal.
   */
  key(signal?: AbortSignal): Promise<string>
  /** Requests no further key. Resolves after the last exchange, so that `onKey` has got every key. */
  end(): Promise<void>
}

/** The time limit for a token, and for an answer, in milliseconds. */
const answerTimeout = 30_000
/** With growing pauses, these repetitions take about half a minute. */
const usualRetries = 6

/**
 * Exchanges CI tokens for keys. The first key is requested on demand, each next key at half of the lifetime of the key
 * before, until `end`. After a failed renewal, the next need for a key retries.
 */
export function createKeyExchange(options: ExchangeOptions): KeyExchange {
  let current: Key | undefined
  let pending: Promise<Key> | undefined
  let timer: NodeJS.Timeout | undefined
  let isOver = false

  const renew = (signal?: AbortSignal): Promise<Key> => {
    pending ??= exchange(options, signal)
      .then((key) => {
        options.onKey?.(key)
        current = key
        clearTimeout(timer)
        if (!isOver) timer = setTimeout(() => void renew().catch(() => undefined), key.lifeMs / 2).unref()
        return key
      })
      .finally(() => {
        pending = undefined
      })
    return pending
  }

  return {
    async key(signal) {
      if (current !== undefined && performance.now() - current.since < (current.lifeMs * 2) / 3) return current.apiKey
      const alive = current
      return unlessAborted(renew(signal), signal).then(
        ({ apiKey }) => apiKey,
        (error: unknown) => {
          // Some CIs give a job only one token: its key is used until it expires.
          if (signal?.aborted !== true && alive !== undefined && isAlive(alive)) return alive.apiKey
          throw error
        },
      )
    },
    async end() {
      isOver = true
      clearTimeout(timer)
      await pending?.catch(() => undefined)
    },
  }
}

/** Revokes a key before it expires. An already revoked key is not an error. */
export async function endKey(options: {
  readonly address: string
  readonly apiKey: string
  readonly fetch?: typeof fetch
  readonly signal?: AbortSignal
}): Promise<void> {
  const { address, apiKey, fetch: send = fetch, signal = AbortSignal.timeout(answerTimeout) } = options
  const headers = { authorization: `Bearer ${apiKey}` }
  const response = await send(targetOf(address), { method: 'DELETE', headers, redirect: 'manual', signal })
  const text = await response.text()
  if (!response.ok && response.status !== 401) throw readError(response, text)
}

interface Key extends ShortLivedKey {
  /** The time of `performance.now()`, in milliseconds. */
  readonly since: number
  readonly lifeMs: number
}

async function exchange(
  { address, projectId, requestToken, retries = usualRetries, onRetry, fetch: send = fetch }: ExchangeOptions,
  signal: AbortSignal | undefined,
): Promise<Key> {
  const withoutToken = new AbortController()
  let since = 0
  const attempt = async (): Promise<Answered> => {
    const asked = requestToken(new URL(address).origin)
    const token = await unlessAborted(asked, AbortSignal.timeout(answerTimeout)).catch((cause: unknown) => {
      withoutToken.abort()
      throw new NoTokenError('There is no token to exchange.', { cause })
    })
    since = performance.now()
    const response = await send(targetOf(address), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token, project_id: projectId }),
      redirect: 'manual',
      signal: AbortSignal.timeout(answerTimeout),
    })
    return { response, text: await response.text() }
  }
  const repetitions: Retries = {
    most: signal === undefined ? Math.min(retries, usualRetries) : retries,
    onRetry: (failed) => onRetry?.('error' in failed ? failed.error : readError(failed.response, failed.text ?? '')),
  }
  const over = signal === undefined ? withoutToken.signal : AbortSignal.any([withoutToken.signal, signal])
  const { response, text = '' } = await withRetries(repetitions, attempt, over)
  if (!response.ok) throw readError(response, text)
  const { api_key: apiKey, expires_at: expiresAt } = Object(readJson(text, response)) as Record<string, unknown>
  if (typeof apiKey !== 'string' || typeof expiresAt !== 'string') throw foreignAnswer(response)
  return { apiKey, expiresAt, since, lifeMs: lifeOf(expiresAt, response) }
}

/** Returns the lifetime of a key in milliseconds by the server's clock, because the local clock may be wrong. */
function lifeOf(expiresAt: string, response: Response): number {
  const answered = Date.parse(response.headers.get('date') ?? '')
  // The header has whole seconds, so the answer may be a second newer.
  const life = Date.parse(expiresAt) - (Number.isNaN(answered) ? Date.now() : answered + 1000)
  return Math.max(0, life) || 0
}

const isAlive = ({ since, lifeMs }: Key): boolean => performance.now() - since < lifeMs

const targetOf = (address: string) => `${address}/oidc/token`

/** Settles like the promise, or rejects with the reason of the signal if the abort comes first. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason as Error)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
  })
}
