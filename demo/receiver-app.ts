import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createReceiver } from '@fairlead/receiver'
import Koa from 'koa'

/** Starts a customer's app that receives a webhook for every successful deployment. */
export async function startReceiverApp(onMessage: (line: string, deploymentId: string) => void) {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/webhooks/fairlead`,
    /** Creates the receiver. Called once the webhook is registered, because its secret is not known before. */
    listen(secret: string) {
      const receiver = createReceiver({ secrets: [secret] })
      receiver.on('deployment.succeeded', ({ data, timestamp }) => {
        onMessage(`${data.deployment_id} runs at ${data.url} since ${timestamp}`, data.deployment_id)
      })
      const app = new Koa()
      app.use(receiver.middleware({ path: '/webhooks/fairlead' }))
      server.on('request', app.callback())
    },
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
