import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createReceiver, type EventOf } from '@fairlead/receiver'
import Koa from 'koa'

const names = ['deployment.succeeded', 'deployment.failed', 'deployment.canceled'] as const
type DeploymentEvent = EventOf<(typeof names)[number]>

export interface TestReceiver extends AsyncDisposable {
  readonly url: string
  readonly received: DeploymentEvent[]
  /** Resolves with the first event that fits, received already or later. */
  waitFor(fits: (event: DeploymentEvent) => boolean): Promise<DeploymentEvent>
}

/**
 * Starts a Koa app that mounts the library's receiver, as a customer would. The app listens at once, so that a webhook
 * can be created with its address; `trust` then sets the webhook's secret.
 */
export async function testReceiver(): Promise<TestReceiver & { trust(secret: string): void }> {
  const received: DeploymentEvent[] = []
  const waiting = new Set<() => void>()
  let app = new Koa()
  const server = createServer((request, response) => void app.callback()(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`,
    received,
    trust(secret) {
      const receiver = createReceiver({ secrets: [secret] })
      for (const name of names) {
        receiver.on(name, (event) => {
          received.push(event)
          for (const wake of waiting) wake()
        })
      }
      app = new Koa()
      app.use(receiver.middleware({ path: '/hooks' }))
    },
    waitFor(fits) {
      return new Promise((done) => {
        const look = () => {
          const found = received.find(fits)
          if (found === undefined) return
          waiting.delete(look)
          done(found)
        }
        waiting.add(look)
        look()
      })
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
