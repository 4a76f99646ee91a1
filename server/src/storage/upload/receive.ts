import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { tooLarge } from '../limits.ts'
import { declaredType, detectedType, headBytes } from '../media-type.ts'
import type { PendingUpload } from '../pending.ts'
import type { FileWriter } from '../store.ts'
import { fileName, unescapeFormName } from './file-name.ts'
import { formOverheadBytes, readUploadForm } from './form.ts'

/** A file that is complete in the store and has no row yet. */
export interface ReceivedFile {
  readonly name: string
  readonly size: number
  readonly sha256: Buffer
  readonly declared_type: string | null
  readonly detected_type: string | null
}

/**
 * Streams the one file of an upload into the store. Throws `invalid_request` on a malformed body, and as soon as it is
 * known that the file is larger than `fileBytes` or than the project has room for. The caller removes what was stored.
 */
export async function receiveFile(options: {
  readonly message: IncomingMessage
  /** Begins the file in the store. Called once, when space is reserved for its first bytes. */
  readonly create: () => Promise<FileWriter>
  readonly reserve: PendingUpload['reserve']
  /** The bytes that the project has left as the upload begins. */
  readonly free: number
  readonly fileBytes: number
  readonly idleTimeoutMs: number
}): Promise<ReceivedFile> {
  const { message, create, free, fileBytes, idleTimeoutMs } = options
  const length = Number(message.headers['content-length'] ?? Number.NaN)
  // Content-Length counts the form as well, so this refuses only files that are certainly too large.
  const sizes = {
    least: Math.max(0, (length || 0) - formOverheadBytes),
    most: Math.min(fileBytes, length || fileBytes),
  }
  const most = Math.min(fileBytes, free)
  if (sizes.least > most) throw tooLarge(most)

  const hold = holdSpace(options, sizes)
  const hash = createHash('sha256')
  const head: Buffer[] = []
  let size = 0
  let file: FileWriter | undefined
  const store = async (bytes: AsyncIterable<Buffer>) => {
    await hold(0)
    for await (const chunk of bytes) {
      await hold(size + chunk.length)
      file ??= await create()
      if (size < headBytes) head.push(chunk)
      size += chunk.length
      const written = file.write(chunk)
      hash.update(chunk)
      await written
    }
    file ??= await create()
  }
  try {
    const form = await readUploadForm({ message, idleTimeoutMs, onFile: store })
    const name = fileName(form.name ?? unescapeFormName(form.filename ?? ''))
    await file?.finish()
    return {
      name,
      size,
      sha256: hash.digest(),
      declared_type: declaredType(form.type),
      detected_type: detectedType(Buffer.concat(head).subarray(0, headBytes)),
    }
  } catch (error) {
    await file?.abort()
    throw error
  }
}

/**
 * Returns a function that makes sure that a file may have as many bytes, and throws `invalid_request` when it may not.
 * `sizes` is what is known of its size in advance.
 */
function holdSpace(
  { reserve, fileBytes }: Pick<Parameters<typeof receiveFile>[0], 'reserve' | 'fileBytes'>,
  sizes: { readonly least: number; readonly most: number },
): (bytes: number) => Promise<void> {
  let held = -1
  return async (bytes) => {
    const needed = Math.min(bytes, fileBytes)
    if (needed > held) {
      const least = Math.max(needed, sizes.least)
      const granted = await reserve({ least, most: Math.max(least, sizes.most) })
      if (granted < least) throw tooLarge(Math.min(fileBytes, granted))
      held = granted
    }
    if (bytes > fileBytes) throw tooLarge(fileBytes)
  }
}
