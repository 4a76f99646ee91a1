import { createHmac, createSecretKey, randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'

/**
 * Signs and posts webhooks as fast as possible without recording them, and prints how many per second. Arguments:
 * number of deliveries, parallel requests, addresses.
 */
const [count = '0', parallel = '1', ...urls] = process.argv.slice(2)
// The server's version, for an equal comparison.
const ofServer = createRequire(new URL('../../server/package.json', import.meta.url))
const { Agent, request } = ofServer('undici') as typeof import('undici')
const agent = new Agent()
const key = createSecretKey(randomBytes(32))
const data = { deployment_id: 'dep_0123456789', project_id: 'proj_0123456789', url: 'https://app.example.com' }
let remaining = Number(count)

async function post(): Promise<void> {
  while (remaining > 0) {
    const number = remaining--
    const body = Buffer.from(
      JSON.stringify({ event: 'deployment.succeeded', timestamp: new Date().toISOString(), data }),
    )
    const timestamp = Math.floor(Date.now() / 1000)
    const signature = createHmac('sha256', key).update(`evt_${number}.${timestamp}.`).update(body).digest('base64')
    const response = await request(urls[number % urls.length] ?? '', {
      dispatcher: agent,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'webhook-id': `evt_${number}`,
        'webhook-timestamp': String(timestamp),
        'webhook-signature': `v1,${signature}`,
      },
      body,
    })
    await response.body.dump()
  }
}

const startedAt = performance.now()
await Promise.all(Array.from({ length: Number(parallel) }, post))
console.log(Number(count) / ((performance.now() - startedAt) / 1000))
await agent.close()
