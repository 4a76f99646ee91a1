import { type Generated, type Selectable, sql } from 'kysely'
import { invalidRequest, notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import { readPage } from '../../http/page.ts'
import { type Database, lockByName, type Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import type { RegistryCredentials } from '../../runtimes/runtime.ts'

const mostRegistries = 50

/** Reads and changes of projects' registry credentials, for owners. */
export function registryHandlers(given: {
  readonly database: Database
  readonly secretBox: SecretBox
}): HandlersOf<'registries'> {
  return {
    async 'registries.list'({ project, page }) {
      const own = tablesOf(given.database).selectFrom('registries').selectAll().where('project_id', '=', project.id)
      const { rows, next } = await readPage(own, page, 'id')
      return { body: { registries: rows.map(viewOf) }, next }
    },

    async 'registries.set'({ transaction, project, body: { registry, username, password }, note }) {
      note({ registry, username })
      await assertRoom(transaction, project.id, registry)
      const values = {
        username,
        password: given.secretBox.encrypt(password, passwordContext(project.id, registry)),
        created_at: sql<Date>`now()`,
      }
      const row = await tablesOf(transaction)
        .insertInto('registries')
        .values({ id: newId('registry'), project_id: project.id, registry, ...values })
        .onConflict((conflict) => conflict.columns(['project_id', 'registry']).doUpdateSet(values))
        .returningAll()
        .executeTakeFirstOrThrow()
      return viewOf(row)
    },

    async 'registries.delete'({ transaction, project, params }) {
      const { numDeletedRows } = await tablesOf(transaction)
        .deleteFrom('registries')
        .where('project_id', '=', project.id)
        .where('id', '=', params.id)
        .executeTakeFirst()
      if (numDeletedRows !== 1n) throw notFound()
      return undefined
    },
  }
}

/** Throws `invalid_request` when the project has credentials for as many other registries as it may. */
async function assertRoom(transaction: Transaction, projectId: string, registry: string): Promise<void> {
  await lockByName(transaction, `registries of ${projectId}`)
  const { count } = await tablesOf(transaction)
    .selectFrom('registries')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('project_id', '=', projectId)
    .where('registry', '<>', registry)
    .executeTakeFirstOrThrow()
  if (Number(count) < mostRegistries) return
  const message = `the project has credentials for ${mostRegistries} registries, as many as it may have`
  throw invalidRequest({ field: 'registry', message })
}

const viewOf = ({
  id,
  registry,
  username,
  created_at,
}: Selectable<RegistriesTables['registries']>): ResponseBody<'registries.set'> => ({
  id,
  registry,
  username,
  created_at: created_at.toISOString(),
})

const passwordContext = (projectId: string, registry: string): string => `${projectId} registry ${registry}`

/** Returns the project's credentials for a registry; null when the project has none. */
type CredentialsFor = (projectId: string, registry: string) => Promise<RegistryCredentials | null>

export function createCredentialsFor(given: {
  readonly database: Database
  readonly secretBox: SecretBox
}): CredentialsFor {
  return async (projectId, registry) => {
    const stored = await tablesOf(given.database)
      .selectFrom('registries')
      .select(['username', 'password'])
      .where('project_id', '=', projectId)
      .where('registry', '=', registry)
      .executeTakeFirst()
    if (stored === undefined) return null
    const { username, password } = stored
    return { username, password: given.secretBox.decrypt(password, passwordContext(projectId, registry)) }
  }
}

type RegistriesTables = {
  registries: {
    id: string
    project_id: string
    /** The host with its port, as in references of images. */
    registry: string
    username: string
    password: Buffer
    created_at: Generated<Date>
  }
}

const tablesOf = (on: Database | Transaction) => on.withTables<RegistriesTables>()
