import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@fairlead/server/client'
import { dial, testAuthority } from './edge.ts'
import { freePort } from './ports.ts'

/* Servers with a domain: on high ports, with a real Caddy, and with certificates from the tests' authority. */

export const domain = 'example.test'
export const dashboardHost = `fairlead.${domain}`

export interface EdgeSettings {
  readonly httpPort: number
  readonly httpsPort: number
  readonly environment: Readonly<Record<string, string>>
}

/**
 * Returns the settings of a server with a domain, on free ports. The server obtains no certificate, because no
 * authority answers.
 */
export async function edgeSettings(): Promise<EdgeSettings> {
  const [httpPort, httpsPort, gatewayPort] = [await freePort(), await freePort(), await freePort()]
  return {
    httpPort,
    httpsPort,
    environment: {
      FAIRLEAD_DOMAIN: domain,
      FAIRLEAD_ACME_EMAIL: `operator@${domain}`,
      FAIRLEAD_ACME_URL: 'https://127.0.0.1:1/directory',
      FAIRLEAD_EDGE_HTTP_PORT: String(httpPort),
      FAIRLEAD_EDGE_HTTPS_PORT: String(httpsPort),
      FAIRLEAD_GATEWAY_PORT: String(gatewayPort),
    },
  }
}

/** Uploads a certificate from the tests' authority for these names. */
export async function uploadCertificate(client: Client, ...names: string[]): Promise<void> {
  const pem = await (await testAuthority()).issue(...names)
  const first = pem.indexOf('-----BEGIN CERTIFICATE-----')
  await client.certificates.create({ body: { certificate: pem.slice(first), private_key: pem.slice(0, first) } })
}

const certifiedMs = 30_000

/** Resolves when the edge shows a certificate for this name; otherwise rejects with the last reason. */
export async function certified(host: string, port: number): Promise<void> {
  const deadline = performance.now() + certifiedMs
  for (;;) {
    try {
      return void (await dial({ host, port })).destroy()
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(50)
    }
  }
}
