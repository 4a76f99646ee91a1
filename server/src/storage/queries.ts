import type { Selectable } from 'kysely'
import { notFound } from '../contract/errors.ts'
import type { ResponseBody } from '../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../http/page.ts'
import type { TenantProject } from '../http/principal.ts'
import { mediaType } from './media-type.ts'
import type { StorageParts } from './parts.ts'
import { fileFields } from './rows.ts'
import type { StorageTables } from './tables.ts'

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

export interface FileQueries {
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'storage.list'>>>
  get(project: TenantProject, id: string): Promise<ResponseBody<'storage.get'>>
  byAddress(id: string, token: string): Promise<StoredFile | undefined>
}

export function createFileQueries({ database, addresses }: Pick<StorageParts, 'database' | 'addresses'>): FileQueries {
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
