import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { attacks } from '../../harness/attacks/attack.ts'
import { connect, createdDatabase, query, untilDatabase } from '../../harness/databases.ts'

// The tests often read the state of a database.
const free = { ...shippedPlans.free, requests_per_hour: 100_000 }
const plans = { ...shippedPlans, free, small: { ...shippedPlans.free, database_gb: 0.02 } }

/** Adds 3 MB although the database is read-only. Resolves to the error's code when the server refuses it or ends the session. */
const grow = (connectionString: string): Promise<string | undefined> =>
  query(
    connectionString,
    `begin read write; create table if not exists big (text text);
     insert into big select repeat(md5(g::text), 30) from generate_series(1, 3000) g; commit`,
  ).then(
    () => undefined,
    (error: { code?: string }) => error.code ?? 'lost',
  )

attacks({ plans }, (attack) => {
  attack(
    {
      id: 'database-growth',
      topic: 'Databases',
      held: 'A database far above its size stops growing, and its owner can make it smaller without help',
    },
    async ({ attacker: { client, project } }) => {
      const { id, connection_string } = await createdDatabase(client, project, { name: 'big', plan: 'small' })
      const growBeyond = async (bytes: number) => {
        const size = async () => (await client.databases.get({ params: { project_id: project, id } })).size_bytes ?? 0
        while ((await size()) < bytes) await grow(connection_string)
      }
      await growBeyond(31e6)
      await untilDatabase(client, project, id, ({ read_only }) => read_only)
      // Sessions end when the database becomes read-only.
      const shrink = async () => {
        await using owner = await connect(connection_string)
        await owner.query('set default_transaction_read_only = off')
        await owner.query('truncate big')
      }
      const outcome = () =>
        shrink().then(
          () => 'done',
          (error: { code?: string }) => error.code,
        )
      await expect.poll(outcome).toBe('done')
      await untilDatabase(client, project, id, ({ read_only }) => !read_only)
      await expect.poll(() => grow(connection_string), { timeout: 90_000, interval: 1 }).toBe('28000')
      await client.databases.delete({ params: { project_id: project, id } })
    },
  )

  attack(
    {
      id: 'database-refused-logins',
      topic: 'Databases',
      held: 'Refused logins to databases do not fill the disk with their log',
    },
    async ({ data, attacker: { client, project } }) => {
      const { id, connection_string } = await createdDatabase(client, project)
      const address = new URL(connection_string)
      address.username = 'x'.repeat(63)
      address.pathname = `/${'y'.repeat(63)}`
      const log = join(data, 'databases', '18', 'postgres.log')
      let written = 0
      let size = (await stat(log)).size
      // Until it was cut once, or has 4 MB.
      while (size < 4e6 && size >= written) {
        await Promise.all(Array.from({ length: 50 }, () => connect(address.href).catch(() => undefined)))
        written = size
        size = (await stat(log)).size
      }
      expect(size).toBeLessThan(4e6)
      await client.databases.delete({ params: { project_id: project, id } })
    },
  )

  attack(
    {
      id: 'database-account',
      topic: 'Databases',
      held: 'An account has a limited number of databases, in all of its projects together',
    },
    async ({ tenant }) => {
      const { client } = await tenant('many')
      const create = async () => {
        const { id } = await client.projects.create({ body: { name: 'p' } })
        return client.databases.create({ params: { project_id: id }, body: { name: 'db', plan: 'free' } })
      }
      let refusal: unknown
      for (let count = 0; count < 15 && refusal === undefined; count++) {
        refusal = await create().then(
          () => undefined,
          (error: unknown) => error,
        )
      }
      expect(refusal).toMatchObject({ code: 'invalid_request', details: { max_account_databases: 10 } })
    },
  )
})
