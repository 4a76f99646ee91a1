import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { createExternalEngine } from '../../../server/src/features/databases/postgres/external.ts'
import { createDatabaseReconciler } from '../../../server/src/features/databases/reconciler.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { createSecretBox } from '../../../server/src/platform/secrets.ts'
import { createdDatabase, engineName, takenSnapshot, untilDatabase } from '../../harness/databases.ts'
import { postgresByHand } from '../../harness/postgres-by-hand.ts'
import { ownServer } from '../../harness/server.ts'

const logger = pino({ level: 'silent' })

it('all databases of a project are removed permanently, even after a second removal', async () => {
  await using operator = await postgresByHand()
  await using server = await ownServer({ FAIRLEAD_DATABASES_URL: operator.url })
  const newProject = async () => (await server.client.projects.create({ body: { name: 'p' } })).id
  const [project, other] = [await newProject(), await newProject()]
  const one = await createdDatabase(server.client, project)
  const deleted = await createdDatabase(server.client, project)
  const stays = await createdDatabase(server.client, other)
  await takenSnapshot(server.client, project, one.id)
  await server.client.databases.delete({ params: { project_id: project, id: deleted.id } })

  await using handle = Object.assign(openDatabase({ connectionString: server.database.url, max: 2 }, logger), {
    [Symbol.asyncDispose]: () => handle.close(),
  })
  const engine = createExternalEngine({ url: operator.url, logger })
  const reconciler = createDatabaseReconciler({
    database: handle.db,
    secrets: createSecretBox(randomBytes(32)),
    engine,
    plans: shippedPlans,
    announce: async () => undefined,
    logger,
  })
  const { signal } = new AbortController()
  // Waits until the server's job has archived the deleted database.
  const archived = `select from pg_database where datname = 'deleted_${engineName(deleted)}'`
  await expect.poll(() => operator.query(archived)).toHaveLength(1)
  await reconciler.removeProject(project, signal)
  await reconciler.removeProject(project, signal)
  await engine.close()

  expect(await operator.query("select datname from pg_database where datname ~ '_|^.{26}$'")).toEqual([
    [engineName(stays)],
  ])
  expect(await operator.query("select rolname from pg_roles where rolname ~ '^.{26}$'")).toEqual([[engineName(stays)]])
  expect((await server.client.databases.list({ params: { project_id: project } })).databases).toEqual([])
  await untilDatabase(server.client, other, stays.id)
})
