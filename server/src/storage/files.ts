import type { ResponseBody } from '../contract/operations.ts'
import type { Page, PageRequest } from '../http/page.ts'
import type { TenantProject } from '../http/principal.ts'
import { type BatchedRead, createBatchedRead } from '../platform/database/batcher.ts'
import type { Transaction } from '../platform/database.ts'
import type { StorageParts } from './parts.ts'
import { createFileQueries, type StoredFile } from './queries.ts'
import { deleteFile } from './removal.ts'
import { usageOf } from './reservations.ts'
import { type Upload, uploadFile } from './upload/upload.ts'

export interface Files {
  /** Throws `invalid_request` on a body that is not one file in a form, or larger than the project may have. */
  upload(upload: Upload): Promise<ResponseBody<'storage.upload'>>
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'storage.list'>>>
  /** Throws `not_found`. */
  get(project: TenantProject, id: string): Promise<ResponseBody<'storage.get'>>
  /** Deletes the row. Returns a function that removes the file, to be called after the commit. Throws `not_found`. */
  delete(transaction: Transaction, project: TenantProject, id: string): Promise<() => void>
  /** Returns the file of a download address, or `undefined` when the address is wrong. */
  byAddress(id: string, token: string): Promise<StoredFile | undefined>
  /** Returns how many bytes the files of a project take. */
  readonly storedBytes: BatchedRead<string, number>
}

export function createFiles(parts: StorageParts): Files {
  const usage = createBatchedRead(parts.database, usageOf)
  return {
    ...createFileQueries(parts),
    upload: (upload) => uploadFile(parts, usage, upload),
    delete: (transaction, project, id) => deleteFile(parts, { transaction, projectId: project.id, id }),
    storedBytes: async (projectId, transaction) => (await usage(projectId, transaction)).stored,
  }
}
