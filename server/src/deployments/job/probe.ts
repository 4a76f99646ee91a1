import type { IncomingHttpHeaders, RequestOptions } from 'node:http'
import { request } from '../../platform/http.ts'

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
}

/**
 * True for the answer of a healthy app: 200 to 399 on the path that the app has named for this. Without such a path
 * anything below 500 is healthy, because `/` may well ask for a password or not exist.
 */
export const isHealthy = (status: number, healthPath: string | undefined): boolean =>
  healthPath === undefined ? status < 500 : status >= 200 && status < 400

const timeoutMs = 5_000

/**
 * Requests a path on a new connection and resolves with the head of the answer. It always settles: it rejects when there
 * is no answer within five seconds, or none that is HTTP.
 */
export function probe(
  target: Pick<RequestOptions, 'host' | 'port' | 'headers'> & { readonly path: string },
  signal: AbortSignal,
): Promise<Answer> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  return new Promise((done, fail) => {
    const asking = request({ ...target, agent: false, signal: limit }, (response) => {
      done({ status: response.statusCode ?? 0, headers: response.headers })
      response.destroy()
    })
    asking.on('error', fail)
    // To Node an unsolicited upgrade is neither an answer nor an error.
    asking.on('close', () => fail(new Error('the connection was closed without an answer')))
    limit.addEventListener('abort', () => fail(limit.reason), { once: true })
    asking.end()
  })
}
