import { ApiError } from '../../contract/errors.ts'
import { CommandError } from './command-error.ts'

interface Server {
  readonly baseUrl: string
  /** The CI whose job gets a key without a login. */
  readonly ci?: string
  readonly loginFile?: string | undefined
}

export function explain(error: unknown, { baseUrl, ci, loginFile }: Server): unknown {
  if (error instanceof ApiError) {
    const { field, errors = [] } = error.details
    return new CommandError(
      [
        error.message,
        ...(field === undefined ? [] : [`field: ${field}`]),
        ...errors.slice(1).map((other) => `also: ${other.field}: ${other.message}`),
        ...(error.code === 'forbidden' && typeof error.details['scope'] === 'string' ? [moreRights(ci)] : []),
        ...(error.code === 'unauthorized' && ci === undefined
          ? [
              loginFile === undefined
                ? 'fairlead login keeps another key, FAIRLEAD_API_KEY names one'
                : `the key comes from an earlier login and is in ${loginFile}: log in again (fairlead login ${baseUrl.replace(/\/v1$/, '')}), or name a key in FAIRLEAD_API_KEY`,
            ]
          : []),
        ...(error.requestId === undefined ? [] : [`request id: ${error.requestId}`]),
      ].join('\n  '),
    )
  }
  const reason = reasonOfSilence(error)
  return reason === undefined ? error : new CommandError(`${baseUrl} does not answer: ${reason}`)
}

/** Returns why a server gives no API answer; undefined for other errors, including refusals. */
export function reasonOfSilence(error: unknown): string | undefined {
  if (error instanceof ApiError) return error.status < 500 ? undefined : error.message
  if (error instanceof Error && error.name === 'TimeoutError') return error.message
  // Without a response, `fetch` gives the reason only as the cause.
  if (!(error instanceof TypeError) || !(error.cause instanceof Error)) return undefined
  return (error.cause as NodeJS.ErrnoException).code ?? error.cause.message
}

export const noAnswer = (ms: number): DOMException =>
  new DOMException(`no answer for ${Math.round(ms / 1000)} s`, 'TimeoutError')

const moreRights = (ci: string | undefined): string =>
  ci === undefined
    ? 'fairlead login gets a key with all permissions; Settings → API Keys in the dashboard makes one with those that you choose'
    : `the key of a job in ${ci} deploys alone: give the job a key with this permission as FAIRLEAD_API_KEY`
