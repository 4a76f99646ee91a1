import { ApiError } from '@fairlead/server/client'
import { reasonOf } from '../explain.ts'

/** The time between two lines that say that the server does not answer. */
const tellEveryMs = 15_000
/** A missing DNS name, or an untrusted certificate, is rarely fixed while a step waits. */
const hopelessMs = 60_000

/** The attempts of a step's requests, which are repeated until its time is over. */
export interface Attempts {
  /** Records a failed attempt before it is repeated. Throws its error when a repetition cannot help. */
  failed(error: unknown): void
  answered(): void
  /** The error of the last attempt; undefined if that got an answer. */
  readonly lastError: unknown
  /** False while every attempt has failed before it sent data. */
  readonly maySend: boolean
  /** Ends the lines. */
  end(): void
}

/**
 * @param print writes a line to the log
 * @param over aborts when attempts must end
 */
export function createAttempts(print: (line: string) => void, over?: AbortSignal): Attempts {
  let lastError: unknown
  let maySend = true
  let hopelessSince: number | undefined
  let timer: NodeJS.Timeout | undefined
  const tell = () => print(`The server does not answer (${reasonOf(lastError)}); trying again`)
  const end = () => {
    clearInterval(timer)
    timer = undefined
  }
  return {
    failed(error) {
      const isFirst = lastError === undefined
      lastError = error
      maySend = (isFirst ? false : maySend) || !failedBeforeSending(error)
      hopelessSince = isHopeless(error) ? (hopelessSince ?? performance.now()) : undefined
      const isUseless = hopelessSince !== undefined && performance.now() - hopelessSince > hopelessMs
      if (isUseless || over?.aborted) throw error
      if (timer !== undefined) return
      tell()
      timer = setInterval(tell, tellEveryMs).unref()
    },
    answered() {
      if (timer !== undefined) print('The server answers again')
      end()
      lastError = undefined
      hopelessSince = undefined
      maySend = true
    },
    get lastError() {
      return lastError
    },
    get maySend() {
      return maySend
    },
    end,
  }
}

/** The codes of Node and OpenSSL for a name that does not exist, and for a server that does not speak TLS or is not trusted. */
const hopeless = /^(ENOTFOUND|EPROTO|CERT_|ERR_TLS_|ERR_SSL_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_|HOSTNAME_MISMATCH)/
const beforeSending = /^(ECONNREFUSED|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT)$/

const isHopeless = (error: unknown): boolean => hopeless.test(systemCode(error))

const failedBeforeSending = (error: unknown): boolean => isHopeless(error) || beforeSending.test(systemCode(error))

/** Returns the code of the innermost cause, such as `ECONNREFUSED`; empty for an answer. */
function systemCode(error: unknown): string {
  if (error instanceof ApiError || !(error instanceof Error)) return ''
  const { code, errors } = error as { readonly code?: unknown; readonly errors?: readonly unknown[] }
  if (error.cause instanceof Error) return systemCode(error.cause)
  if (typeof code === 'string') return code
  return errors === undefined ? '' : systemCode(errors[0])
}
