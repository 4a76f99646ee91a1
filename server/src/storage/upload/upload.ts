import type { IncomingMessage } from 'node:http'
import { ApiError, notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Transaction } from '../../platform/database.ts'
import { describeDiskError } from '../../platform/disk/free-space.ts'
import { newId } from '../../platform/ids.ts'
import { type Limits, limitsOf } from '../limits.ts'
import type { StorageParts } from '../parts.ts'
import type { PendingUpload } from '../pending.ts'
import type { Usage } from '../reservations.ts'
import { insertFile } from '../rows.ts'
import { type ReceivedFile, receiveFile } from './receive.ts'

type Answer = ResponseBody<'storage.upload'>
type UploadParts = Omit<StorageParts, 'background'>

export interface Upload {
  readonly project: TenantProject
  readonly message: IncomingMessage
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal
  /** Records in the audit log that the file of this id was created. */
  readonly audit: (transaction: Transaction, fileId: string) => Promise<void>
}

/**
 * Stores a file: first its bytes, and once they are safe in the store, its row with the event and the project's usage.
 * No transaction is open while bytes arrive.
 * Throws `invalid_request` on a body that is not one file in a form, or larger than the project may have.
 */
export async function uploadFile(
  parts: UploadParts,
  usageOf: (projectId: string) => Promise<Usage>,
  upload: Upload,
): Promise<Answer> {
  const limits = limitsOf(parts.plans, upload.project.plan)
  const { stored, reserved } = await usageOf(upload.project.id)
  const free = limits.quotaBytes - stored - reserved
  const id = newId('file')
  const { id: projectId, accountId } = upload.project
  const uploading = { id, projectId, accountId, quotaBytes: limits.quotaBytes }
  try {
    return await parts.pending.track(uploading, (pending) => storeFile(parts, upload, { id, pending, limits, free }))
  } catch (error) {
    const described = describeDiskError(error)
    if (described !== error) parts.logger.error({ err: error }, 'the disk for files is full')
    throw described
  }
}

/** A file on its way from the request to its row. */
interface IncomingFile {
  readonly id: string
  readonly pending: PendingUpload
  readonly limits: Limits
  /** The bytes that the project has left as the upload begins. */
  readonly free: number
}

async function storeFile(parts: UploadParts, upload: Upload, incoming: IncomingFile): Promise<Answer> {
  const { id, pending, limits, free } = incoming
  const { message, signal } = upload
  const file = await receiveFile({
    message,
    async create() {
      const writer = await parts.store.create(id)
      return { ...writer, finish: () => pending.inTurn(writer.finish) }
    },
    reserve: pending.reserve,
    free,
    fileBytes: limits.fileBytes,
    idleTimeoutMs: parts.idleTimeoutMs,
  })
  // The client cannot receive the id any more, so nobody would know of the file.
  if (signal.aborted)
    throw new ApiError('invalid_request', 'The connection was closed before the upload was complete.', {
      field: 'file',
    })
  return insertRow(parts, upload, incoming, file)
}

/** Writes the row, the project's usage, the event and the audit entry in one transaction. */
function insertRow(
  parts: UploadParts,
  { project, audit }: Upload,
  { id, pending, limits }: IncomingFile,
  { name, size, ...facts }: ReceivedFile,
): Promise<Answer> {
  return parts.transact(project.accountId, async (transaction) => {
    if (!(await parts.holdProject(transaction, project.id))) throw notFound()
    await pending.complete(transaction)
    const { url, token } = parts.addresses.create(id)
    const row = { id, project_id: project.id, name, size, ...facts, token }
    const { uploaded_at } = await insertFile(transaction, row, limits.quotaBytes)
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
