import type { IncomingMessage } from 'node:http'
import { ApiError, notFound } from '../contract/errors.ts'
import type { ResponseBody } from '../contract/operations.ts'
import type { TenantProject } from '../http/principal.ts'
import type { Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { fileUrl, newToken } from './address.ts'
import { describeDiskError, type Limits, limitsOf } from './limits.ts'
import type { StorageParts } from './parts.ts'
import { type ReceivedFile, receiveFile } from './receive.ts'
import { insertFile } from './rows.ts'
import { settle } from './settle.ts'
import type { Claim, Space } from './space.ts'

type Answer = ResponseBody<'storage.upload'>

export interface Upload {
  readonly project: TenantProject
  readonly message: IncomingMessage
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal
  /** Notes in the audit log that the file of this id was made. */
  readonly audit: (transaction: Transaction, fileId: string) => Promise<void>
}

/**
 * Takes in a file: its bytes first, and once they are safe on the disk, its row with the event and the count.
 * Throws `invalid_request` on a body that is not one file in a form, or larger than the project may have.
 */
export async function uploadFile(parts: StorageParts, space: Space, upload: Upload): Promise<Answer> {
  const limits = limitsOf(parts.plans, upload.project.plan)
  const claim = await space.claim(upload.project.id, limits.quotaBytes)
  try {
    return await takeIn(parts, upload, limits, claim)
  } catch (error) {
    const told = describeDiskError(error)
    if (told !== error) parts.logger.error({ err: error }, 'the disk for files is full')
    throw told
  } finally {
    claim.release()
  }
}

async function takeIn(parts: StorageParts, upload: Upload, limits: Limits, claim: Claim): Promise<Answer> {
  const { store, idleTimeoutMs, logger } = parts
  const id = newId('file')
  const file = await receiveFile({ id, store, message: upload.message, claim, ...limits, idleTimeoutMs })
  try {
    // Nobody would learn of the file.
    if (upload.signal.aborted) throw new ApiError('invalid_request', 'The upload was broken off.', { field: 'file' })
    const answer = await record(parts, upload, id, file, limits)
    claim.keep()
    return answer
  } finally {
    // Also a commit that was not heard of may have happened. If the database cannot say, the next start asks it.
    await settle(parts, id).catch((error: unknown) => logger.warn({ err: error, file: id }, 'a file stays in doubt'))
  }
}

/** The row, what it counts and its event: all or nothing. */
function record(
  parts: StorageParts,
  { project, audit }: Upload,
  id: string,
  { name, size, ...facts }: ReceivedFile,
  { quotaBytes }: Limits,
): Promise<Answer> {
  return parts.database.transaction().execute(async (transaction) => {
    if (!(await parts.holdProject(transaction, project.id))) throw notFound()
    const token = newToken()
    const row = { id, project_id: project.id, name, size, ...facts, token: parts.secrets.encrypt(token, id) }
    const { uploaded_at } = await insertFile(transaction, row, quotaBytes)
    const url = fileUrl(parts.publicOrigin, id, token)
    await parts.announceUpload(transaction, {
      accountId: project.accountId,
      projectId: project.id,
      fileId: id,
      name,
      size,
      url,
    })
    await audit(transaction, id)
    return { id, name, url, size, uploaded_at: uploaded_at.toISOString() }
  })
}
