import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { expect } from 'vitest'
import { clusterUser } from '../../../server/src/platform/postgres/initialise.ts'
import { parsePostmasterPid } from '../../../server/src/platform/postgres/postmaster.ts'
import { attacks } from '../../harness/attacks/attack.ts'
import { settled } from '../../harness/deployments.ts'
import { testEndpoint } from '../../harness/endpoint.ts'
import { gitServer } from '../../harness/git-server.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

/** Connects to the server's database through its socket, which remains while the server is killed. */
async function ownDatabase(data: string): Promise<pg.Client & AsyncDisposable> {
  const lock = parsePostmasterPid(await readFile(join(data, 'postgres', 'data', 'postmaster.pid'), 'utf8'))
  const client = new pg.Client({ host: lock?.socketDirectory ?? '', user: clusterUser, database: 'fairlead' })
  client.on('error', () => undefined)
  await client.connect()
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() })
}

// The machine's clock does not change: the earlier times are set an hour ahead instead.
attacks({}, (attack) => {
  attack(
    {
      id: 'clock-back-deployment',
      topic: 'Recovery',
      held: 'A clock that is set back by an hour delays no deployment',
    },
    async ({ data, attacker: { client, project } }) => {
      await using database = await ownDatabase(data)
      await using source = await repository(nodeApp('here'))
      await using git = await gitServer(source)
      // The first deployment of the app waits for its repository, and the job of the second one waits for the first.
      await using silent = await testEndpoint(() => undefined)
      const params = { project_id: project }
      const first = await client.deployments.create({ params, body: { name: 'app', git_url: silent.url } })
      await silent.waitFor(1)
      const second = await client.deployments.create({ params, body: { name: 'app', git_url: git.url } })
      const { rowCount } = await database.query(
        `select from graphile_worker.jobs waiting, graphile_worker.reschedule_jobs(
           array[waiting.id], run_at => waiting.run_at + interval '1 hour')
         where waiting.key = $1 and waiting.locked_at is null`,
        [`deployment ${second.id}`],
      )
      expect(rowCount).toBe(1)
      await client.deployments.cancel({ params: { ...params, id: first.id } })
      expect((await settled(client, project, second.id)).status).toBe('running')
    },
  )

  attack(
    {
      id: 'clock-back-start',
      topic: 'Recovery',
      held: 'A clock that was set back by an hour while no server ran delays nothing after the start',
    },
    async (server) => {
      const { client } = server.attacker
      await using endpoint = await testEndpoint((response, _, count) =>
        response.writeHead(count === 1 ? 500 : 204).end(),
      )
      const { id } = await client.webhooks.create({ body: { url: endpoint.url } })
      await client.webhooks.test({ params: { id } })
      await endpoint.waitFor(1)
      const waiting = async () => (await client.deliveries.list({ params: { webhook_id: id } })).deliveries[0]?.status
      await using database = await ownDatabase(server.data)
      const failed = `select from deliveries where failures = 1 and status = 'pending'`
      await expect.poll(async () => (await database.query(failed)).rowCount).toBe(1)
      await server.server.kill()
      await database.query(`update leadership set renewed_at = renewed_at + interval '1 hour'`)
      await database.query(`update deliveries set next_attempt_at = next_attempt_at + interval '1 hour'`)
      await server.restart()
      await endpoint.waitFor(2)
      await expect.poll(waiting).toBe('succeeded')
    },
  )
})
