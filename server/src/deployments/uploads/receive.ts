import type { IncomingMessage } from 'node:http'
import { Writable } from 'node:stream'
import { ApiError, invalidRequest } from '../../contract/errors.ts'
import { watchBody } from '../../http/bodies.ts'
import { type Bundle, BundleError, createBundleReader } from '../../sources/bundle.ts'
import type { PackWriter } from './files.ts'

export interface ReceiveOptions {
  readonly message: IncomingMessage
  /** The most bytes that the bundle may have. */
  readonly mostBytes: number
  /** The longest pause between bytes. */
  readonly idleTimeoutMs: number
  /** The longest time for the whole body. */
  readonly deadlineMs: number
}

/**
 * Writes the pack of a bundle as it arrives. Throws `invalid_request` as soon as it is known that the body is no bundle
 * that can be deployed, or too large. The rest of a refused body is left unread.
 */
export async function receiveBundle(
  options: ReceiveOptions,
  file: Pick<PackWriter, 'write'>,
): Promise<Bundle & { readonly size: number }> {
  const reader = createBundleReader()
  let size = 0
  try {
    await readBody(options, async (chunk) => {
      size += chunk.length
      if (size > options.mostBytes) throw bundleTooLarge(options.mostBytes)
      await file.write(reader.read(chunk))
    })
    return { ...reader.end(), size }
  } catch (error) {
    throw error instanceof BundleError ? refused(`${error.message}.`) : error
  }
}

const refused = (message: string): ApiError => invalidRequest({ field: 'body', message })

/** Returns the error for a bundle that is larger than a project may upload. */
export function bundleTooLarge(mostBytes: number): ApiError {
  const message = `is too large: a source may have ${mostBytes} bytes. Leave its history out, as fairlead deploy does.`
  return new ApiError('invalid_request', `body: ${message}`, {
    field: 'body',
    max_bytes: mostBytes,
    errors: [{ field: 'body', message }],
  })
}

/** Hands on the body as it arrives, each part once the one before it was taken. */
async function readBody(
  { message, idleTimeoutMs, deadlineMs }: ReceiveOptions,
  take: (chunk: Buffer) => Promise<void>,
): Promise<void> {
  const outcome = Promise.withResolvers<void>()
  let taken = Promise.resolve()
  const sink = new Writable({
    write(chunk: Buffer, _, done) {
      taken = take(chunk)
      taken.then(() => done(), done)
    },
  })
  sink.on('error', outcome.reject)
  sink.on('finish', outcome.resolve)
  const late = setTimeout(() => outcome.reject(refused('took too long to arrive.')), deadlineMs)
  const stopWatching = watchBody(message, { idleTimeoutMs, fail: (problem) => outcome.reject(refused(`${problem}.`)) })
  message.pipe(sink)
  try {
    await outcome.promise
  } finally {
    clearTimeout(late)
    stopWatching()
    message.unpipe(sink)
    sink.destroy()
    await taken.catch(() => undefined)
  }
}
