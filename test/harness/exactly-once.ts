import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Client } from '@fairlead/server/client'
import { expect } from 'vitest'
import { freePort } from './ports.ts'
import { serverProcesses } from './server-processes.ts'

/** Starts an endpoint that fails three of ten requests, before or after handling them, and handles each id once. */
async function unreliableEndpoint() {
  const handled = new Map<string, number>()
  const seen = new Set<string>()
  let count = 0
  let copies = 0
  const handle = (id: string) => {
    copies++
    if (seen.has(id)) return
    seen.add(id)
    handled.set(id, (handled.get(id) ?? 0) + 1)
  }
  const answer = (id: string, response: ServerResponse) => {
    const turn = count++ % 10
    if (turn === 2) return void response.writeHead(500).end()
    // Drops the connection once before the event is handled, and once after.
    if (turn === 5) return void response.destroy()
    handle(id)
    if (turn === 8) return void response.destroy()
    response.writeHead(204).end()
  }
  let server: Server | undefined
  const start = async (port: number): Promise<number> => {
    server = createServer((request, response) => {
      request.on('error', () => undefined)
      request.resume().on('end', () => answer(String(request.headers['webhook-id']), response))
    })
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }
  const stop = async () => {
    server?.closeAllConnections()
    server?.close()
    if (server !== undefined) await once(server, 'close')
  }
  const port = await start(await freePort())
  return {
    url: `http://127.0.0.1:${port}/`,
    handled,
    copies: () => copies,
    async restart() {
      await stop()
      await start(port)
    },
    stop,
  }
}

/** Redelivers pending deliveries at once: the schedule would take hours for a third attempt. */
async function hurry(client: Client, webhookId: string): Promise<number> {
  const params = { webhook_id: webhookId }
  const { deliveries } = await client.deliveries.list({ params, query: { status: 'pending', limit: 1000 } })
  for (const { id, attempts } of deliveries) {
    if (attempts > 0) await client.deliveries.redeliver({ params: { ...params, id } })
  }
  return deliveries.length
}

/**
 * Sends events while both the endpoint and the server fail and restart, and expects that the endpoint has handled each
 * event exactly once.
 */
export async function handlesOnce({
  events,
  kills,
  restarts,
}: {
  readonly events: number
  readonly kills: number
  readonly restarts: number
}): Promise<void> {
  const endpoint = await unreliableEndpoint()
  await using servers = await serverProcesses({ FAIRLEAD_PORT: String(await freePort()) })
  const key = await servers.key()
  let server = await servers.start()
  try {
    const client = server.clientFor(key)
    const { id } = await client.webhooks.create({ body: { url: endpoint.url } })
    let announced = 0
    let killed = 0
    let restarted = 0
    const send = async () => {
      while (announced < events) {
        announced++
        // A request without a response may have announced its event. The deliveries show all events.
        await client.webhooks.test({ params: { id } }).catch(() => announced--)
      }
    }
    const senders = Promise.all(Array.from({ length: 8 }, send))
    const disturb = async () => {
      while (killed < kills || restarted < restarts) {
        const progress = endpoint.handled.size / events
        if (restarted < restarts && progress > restarted / (restarts + 1)) {
          await endpoint.restart()
          restarted++
        } else if (killed < kills && progress > killed / (kills + 1)) {
          await server.kill()
          killed++
          server = await servers.start()
        } else await new Promise((done) => setTimeout(done, 20))
      }
    }
    await Promise.all([senders, disturb()])
    while ((await hurry(client, id)) > 0) await new Promise((done) => setTimeout(done, 200))

    const ids: string[] = []
    for await (const { deliveries } of client.deliveries.list.pages({ params: { webhook_id: id } })) {
      for (const delivery of deliveries) {
        expect(delivery.status).toBe('succeeded')
        ids.push(delivery.event_id)
      }
    }
    expect(killed).toBe(kills)
    expect(ids.length).toBeGreaterThanOrEqual(events)
    // Some events arrived more than once; otherwise the test would prove nothing.
    expect(endpoint.copies()).toBeGreaterThan(ids.length)
    expect([...endpoint.handled.keys()].sort()).toEqual(ids.sort())
    expect([...endpoint.handled.values()].every((times) => times === 1)).toBe(true)
  } finally {
    await server.stop()
    await endpoint.stop()
  }
}
