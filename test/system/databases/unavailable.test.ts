import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createdDatabase, query } from '../../harness/databases.ts'
import { processesIn, signal } from '../../harness/process.ts'
import { ownServer } from '../../harness/server.ts'

const token = 'a-token-of-some-length'

it('readiness, metrics and log report a cluster that does not restart, and its return', async () => {
  await using server = await ownServer({ FAIRLEAD_METRICS_TOKEN: token })
  const { id: project_id } = await server.client.projects.create({ body: { name: 'p' } })
  const { id, connection_string } = await createdDatabase(server.client, project_id)
  const readiness = async () => (await fetch(`${server.url}/readyz`)).json()
  const metric = async () => {
    const answer = await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${token}` } })
    return /^fairlead_database_engines\{version="18"\} (\d)$/m.exec(await answer.text())?.[1]
  }
  const within = { timeout: 60_000, interval: 200 }
  await expect.poll(metric, within).toBe('1')
  expect(await readiness()).toEqual({ status: 'ready' })

  const folder = join(server.dataDirectory, 'databases', '18')
  const [postmaster] = await processesIn(folder)
  const settings = join(folder, 'data', 'postgresql.conf')
  await rename(settings, `${settings}.away`)
  signal(postmaster, 'SIGQUIT')
  const problem = "PostgreSQL 18 of users' databases does not answer"
  await expect.poll(readiness, within).toEqual({ status: 'ready', problems: [problem] })
  expect(await metric()).toBe('0')
  expect(server.log).toContainEqual(expect.objectContaining({ level: 50, version: '18', msg: problem }))
  const shown = await server.client.databases.get({ params: { project_id, id } })
  expect(shown).toMatchObject({ status: 'available', size_bytes: null, connections: null })

  await rename(`${settings}.away`, settings)
  await expect.poll(readiness, within).toEqual({ status: 'ready' })
  expect(await query(connection_string, 'select 1')).toEqual([[1]])
})
