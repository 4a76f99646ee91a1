import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { tooLarge } from '../limits.ts'
import { declaredType, detectedType, headBytes } from '../media-type.ts'
import type { Claim } from '../space.ts'
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
  /** Begins the file in the store. Called once, when the file part arrives. */
  readonly create: () => Promise<FileWriter>
  readonly claim: Claim
  readonly fileBytes: number
  readonly idleTimeoutMs: number
}): Promise<ReceivedFile> {
  const { message, create, claim, fileBytes, idleTimeoutMs } = options
  const most = Math.min(fileBytes, claim.free())
  // Content-Length counts the form as well, so this refuses only files that are certainly too large.
  if (Number(message.headers['content-length'] ?? 0) - formOverheadBytes > most) throw tooLarge(most)

  const hash = createHash('sha256')
  const head: Buffer[] = []
  let size = 0
  let file: FileWriter | undefined
  const store = async (bytes: AsyncIterable<Buffer>) => {
    file = await create()
    for await (const chunk of bytes) {
      const room = Math.min(fileBytes - size, claim.free())
      if (chunk.length > room) throw tooLarge(size + room)
      claim.add(chunk.length)
      if (size < headBytes) head.push(chunk)
      size += chunk.length
      const written = file.write(chunk)
      hash.update(chunk)
      await written
    }
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
