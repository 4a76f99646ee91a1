import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { expect } from 'vitest'
import { clusterUser } from '../../../server/src/platform/postgres/initialise.ts'
import { parsePostmasterPid } from '../../../server/src/platform/postgres/postmaster.ts'
import { attacks } from '../../harness/attacks/attack.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
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
      await database.query(`create function an_hour_later() returns trigger language plpgsql as
        $$ begin new.run_at := new.run_at + interval '1 hour'; return new; end $$`)
      await database.query(`create trigger an_hour_later before insert on graphile_worker._private_jobs
        for each row execute function an_hour_later()`)
      await using source = await repository(nodeApp('here'))
      await using git = await gitServer(source)
      expect((await deployAndSettle(client, project, { name: 'app', git_url: git.url })).status).toBe('running')
      await database.query('drop function an_hour_later cascade')
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
