import { pino } from 'pino'
import { expect, it } from 'vitest'
import { removeOld } from '../../../server/src/features/webhooks/record.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { ping, testEndpoint } from '../../harness/endpoint.ts'
import { ownServer } from '../../harness/server.ts'

const dayMs = 24 * 3_600_000

it('old deliveries are removed with their attempts and events, except those still to be sent', async () => {
  await using server = await ownServer()
  await using endpoint = await testEndpoint((response, _, count) => response.writeHead(count === 1 ? 204 : 500).end())
  const { id: webhook_id } = await server.client.webhooks.create({ body: { url: endpoint.url } })
  await ping(server.client, webhook_id)
  const waiting = await ping(server.client, webhook_id)
  await server.database.query(`update deliveries set created_at = now() - interval '31 days'`)
  await server.database.query(`update events set created_at = now() - interval '31 days'`)
  const recent = await ping(server.client, webhook_id)

  const handle = openDatabase({ connectionString: server.database.url, max: 1 }, pino({ level: 'silent' }))
  const remove = () => removeOld(handle.db, new Date(Date.now() - 30 * dayMs), new AbortController().signal)
  const left = async () => {
    const { deliveries } = await server.client.deliveries.list({ params: { webhook_id } })
    const events = await server.database.query<{ id: string }>('select id from events order by id desc')
    expect(events.map(({ id }) => id)).toEqual(deliveries.map((delivery) => delivery.event_id))
    return deliveries.map(({ id }) => id)
  }
  await remove()
  expect(await left()).toEqual([recent.id, waiting.id])
  expect(await server.database.query('select distinct delivery_id from webhook_attempts')).toHaveLength(2)
  await server.client.webhooks.update({ params: { id: webhook_id }, body: { status: 'disabled' } })
  await remove()
  expect(await left()).toEqual([recent.id])
  await handle.close()
})
