import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FileStore, NewFile } from './disk.ts'
import { fileName, unescapeFormName } from './file-name.ts'
import { formOverheadBytes, readUploadForm } from './form.ts'
import { tooLarge } from './limits.ts'
import { declaredType, detectedType, headBytes } from './media-type.ts'
import type { Claim } from './space.ts'

/** A file that is whole in its place, and still in doubt. */
export interface ReceivedFile {
  readonly name: string
  readonly size: number
  readonly sha256: Buffer
  readonly declared_type: string | null
  readonly detected_type: string | null
}

/**
 * Streams the one file of an upload to its place. Throws `invalid_request` on a wrong body, and as soon as it is known
 * that the file is larger than `fileBytes` or than the project has room for. What it throws, it leaves nothing behind.
 */
export async function receiveFile(options: {
  readonly id: string
  readonly store: FileStore
  readonly message: IncomingMessage
  readonly claim: Claim
  readonly fileBytes: number
  readonly idleTimeoutMs: number
}): Promise<ReceivedFile> {
  const { id, store, message, claim, fileBytes, idleTimeoutMs } = options
  const most = Math.min(fileBytes, claim.free())
  // The length counts the form, too; so this refuses only what is too large for certain.
  if (Number(message.headers['content-length'] ?? 0) - formOverheadBytes > most) throw tooLarge(most)

  const hash = createHash('sha256')
  const head: Buffer[] = []
  let size = 0
  let file: NewFile | undefined
  const take = async (bytes: AsyncIterable<Buffer>) => {
    file = await store.create(id)
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
    const form = await readUploadForm({ message, idleTimeoutMs, onFile: take })
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
    await file?.abandon()
    await store.discard(id)
    throw error
  }
}
