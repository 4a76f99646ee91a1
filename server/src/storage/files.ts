import type { Selectable } from 'kysely'
import { notFound } from '../contract/errors.ts'
import type { ResponseBody } from '../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../http/page.ts'
import type { TenantProject } from '../http/principal.ts'
import { createBatcher } from '../platform/database/batcher.ts'
import type { Transaction } from '../platform/database.ts'
import { fileUrl, sameToken } from './address.ts'
import { mediaType } from './media-type.ts'
import type { StorageParts } from './parts.ts'
import { deleteFile, fileFields, storedBytes } from './rows.ts'
import { createSpace } from './space.ts'
import type { StorageTables } from './tables.ts'
import { type Upload, uploadFile } from './upload.ts'

/** A file as its download needs it. */
export interface StoredFile {
  readonly id: string
  readonly name: string
  readonly contentType: string
  /** Bytes. */
  readonly size: number
  /** In hexadecimal. */
  readonly sha256: string
  readonly uploadedAt: Date
}

export interface Files {
  /** Throws `invalid_request` on a body that is not one file in a form, or larger than the project may have. */
  upload(upload: Upload): Promise<ResponseBody<'storage.upload'>>
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'storage.list'>>>
  /** Throws `not_found`. */
  get(project: TenantProject, id: string): Promise<ResponseBody<'storage.get'>>
  /** Deletes the row. Gives what removes the file, to be called once that holds. Throws `not_found`. */
  delete(transaction: Transaction, project: TenantProject, id: string): Promise<() => void>
  /** The file of a download address, or `undefined`. */
  byAddress(id: string, token: string): Promise<StoredFile | undefined>
  /** Bytes that the files of a project take. */
  storedBytes(projectId: string): Promise<number>
  /** Removes all files of a project. May be repeated until it resolves; nothing may be uploaded to the project any more. */
  removeProject(projectId: string): Promise<void>
}

/** Files of a project that are deleted in one transaction. */
const deletedAtOnce = 100

export function createFiles(parts: StorageParts): Files {
  const { database, store, secrets } = parts
  const db = database.withTables<StorageTables>()
  const stored = createBatcher((projectIds: readonly string[]) => storedBytes(database, projectIds))
  const space = createSpace({ storedBytes: stored })
  const ofProject = (projectId: string) => db.selectFrom('files').where('project_id', '=', projectId)

  const shown = (row: Pick<Selectable<StorageTables['files']>, (typeof fileFields)[number]>) => ({
    id: row.id,
    name: row.name,
    url: fileUrl(parts.publicOrigin, row.id, secrets.decrypt(row.token, row.id)),
    size: Number(row.size),
    uploaded_at: row.uploaded_at.toISOString(),
    content_type: mediaType(row.declared_type, row.detected_type),
    sha256: row.sha256.toString('hex'),
  })

  return {
    upload: (upload) => uploadFile(parts, space, upload),

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

    async delete(transaction, project, id) {
      const deleted = await deleteFile(transaction, project.id, id)
      if (deleted === undefined) throw notFound()
      // Before the row is gone for good: from then on the doubt is all that tells of the file.
      await store.doubt(id)
      return () => {
        space.freed(project.id, deleted.size)
        parts.background.add(store.discard(id), { file: id })
      }
    },

    async byAddress(id, token) {
      const row = await db.selectFrom('files').select(fileFields).where('id', '=', id).executeTakeFirst()
      if (row === undefined || !sameToken(secrets.decrypt(row.token, id), token)) return undefined
      const { name, content_type, size, sha256 } = shown(row)
      return { id, name, contentType: content_type, size, sha256, uploadedAt: row.uploaded_at }
    },

    storedBytes: stored,

    async removeProject(projectId) {
      for (;;) {
        const rows = await ofProject(projectId).select('id').limit(deletedAtOnce).execute()
        if (rows.length === 0) break
        for (const { id } of rows) await store.doubt(id)
        await database.transaction().execute(async (transaction) => {
          for (const { id } of rows) await deleteFile(transaction, projectId, id)
        })
        for (const { id } of rows) await store.discard(id)
      }
      await db.deleteFrom('storage_usage').where('project_id', '=', projectId).execute()
    },
  }
}
