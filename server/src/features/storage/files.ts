import type { Selectable } from 'kysely'
import { notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../../http/page.ts'
import type { TenantProject } from '../../http/principal.ts'
import { type BatchedRead, createBatchedRead } from '../../platform/database/batcher.ts'
import type { Transaction } from '../../platform/database.ts'
import { mediaType } from './media-type.ts'
import { usageOf } from './reservations.ts'
import { deleteRow, fileFields, type StorageTables } from './rows.ts'
import { type FilesDependencies, type Upload, uploadFile } from './upload.ts'

export interface Files {
  /** Throws `invalid_request` when the body is not a form with one file, or the file exceeds the project's limits. */
  upload(upload: Upload): Promise<ResponseBody<'storage.upload'>>
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'storage.list'>>>
  /** Throws `not_found`. */
  get(project: TenantProject, id: string): Promise<ResponseBody<'storage.get'>>
  /** Deletes the row. Returns a function that removes the file; call it after the commit. Throws `not_found`. */
  delete(transaction: Transaction, project: TenantProject, id: string): Promise<() => void>
  /** Returns the file at a download address; `undefined` when the address is wrong. */
  byAddress(id: string, token: string): Promise<StoredFile | undefined>
  readonly storedBytes: BatchedRead<string, number>
}

export function createFiles(parts: FilesDependencies): Files {
  const usage = createBatchedRead(parts.database, usageOf)
  return {
    ...createFileQueries(parts),
    upload: (upload) => uploadFile(parts, usage, upload),
    delete: (transaction, project, id) => deleteFile(parts, { transaction, projectId: project.id, id }),
    storedBytes: async (projectId, transaction) => (await usage(projectId, transaction)).stored,
  }
}

export interface StoredFile {
  readonly id: string
  readonly name: string
  readonly contentType: string
  /** The size in bytes. */
  readonly size: number
  /** The hash in hexadecimal digits. */
  readonly sha256: string
  readonly uploadedAt: Date
}

export interface FileQueries {
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'storage.list'>>>
  get(project: TenantProject, id: string): Promise<ResponseBody<'storage.get'>>
  byAddress(id: string, token: string): Promise<StoredFile | undefined>
}

function createFileQueries({ database, addresses }: Pick<FilesDependencies, 'database' | 'addresses'>): FileQueries {
  const files = database.withTables<StorageTables>().selectFrom('files')
  const ofProject = (projectId: string) => files.where('project_id', '=', projectId)

  const shown = (row: Pick<Selectable<StorageTables['files']>, (typeof fileFields)[number]>) => ({
    id: row.id,
    name: row.name,
    url: addresses.urlOf(row),
    size: Number(row.size),
    uploaded_at: row.uploaded_at.toISOString(),
    content_type: mediaType(row.declared_type, row.detected_type),
    sha256: row.sha256.toString('hex'),
  })

  return {
    async list(project, page) {
      const own = ofProject(project.id)
      const [{ rows, next }, { total }] = await Promise.all([
        readPage(own.select(fileFields), page, 'id'),
        own.select(({ fn }) => fn.countAll<string>().as('total')).executeTakeFirstOrThrow(),
      ])
      return { body: { files: rows.map(shown), total: Number(total) }, next }
    },

    async get(project, id) {
      const row = await ofProject(project.id).select(fileFields).where('id', '=', id).executeTakeFirst()
      if (row === undefined) throw notFound()
      return shown(row)
    },

    async byAddress(id, token) {
      const row = await files.select(fileFields).where('id', '=', id).executeTakeFirst()
      if (row === undefined || !addresses.matches(row, token)) return undefined
      const { name, content_type, size, sha256 } = shown(row)
      return { id, name, contentType: content_type, size, sha256, uploadedAt: row.uploaded_at }
    },
  }
}

const batchSize = 100

/** Deletes a file's row. Returns a function that removes the file; call it after the commit. Throws `not_found`. */
async function deleteFile(
  { pending, background }: Pick<FilesDependencies, 'pending' | 'background'>,
  file: { readonly transaction: Transaction; readonly projectId: string; readonly id: string },
): Promise<() => void> {
  const { transaction, projectId, id } = file
  if (!(await deleteRow(transaction, projectId, id))) throw notFound()
  await pending.markDeleted(transaction, [id])
  return () => background.add(pending.removeDeleted([id]), { file: id })
}

/** Removes all files of a project that accepts no more uploads. May be repeated until it resolves. */
export async function removeProjectFiles(
  { database, pending }: Pick<FilesDependencies, 'database' | 'pending'>,
  projectId: string,
): Promise<void> {
  const db = database.withTables<StorageTables>()
  for (;;) {
    const rows = await db
      .selectFrom('files')
      .select('id')
      .where('project_id', '=', projectId)
      .limit(batchSize)
      .execute()
    if (rows.length === 0) break
    const deleted = await database.transaction().execute(async (transaction) => {
      const ids: string[] = []
      for (const { id } of rows) if (await deleteRow(transaction, projectId, id)) ids.push(id)
      if (ids.length > 0) await pending.markDeleted(transaction, ids)
      return ids
    })
    if (deleted.length > 0) await pending.removeDeleted(deleted)
  }
  await db.deleteFrom('storage_usage').where('project_id', '=', projectId).execute()
}
