import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { caddyConfiguration, type EdgeSettings } from '../../../../server/src/edge/configuration.ts'
import { noCaddy } from '../../../harness/edge.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { temporaryDirectory } from '../../../harness/temporary.ts'

const why = await noCaddy()
if (why !== null) skipped("the edge's configuration", why)

const settingsIn = (folder: string): EdgeSettings => ({
  httpPort: 80,
  httpsPort: 443,
  dashboardHost: 'fairlead.example.com',
  trustedProxies: [],
  sockets: {
    api: join(folder, 'api.sock'),
    apps: join(folder, 'edge.sock'),
    questions: join(folder, 'questions.sock'),
    admin: join(folder, 'admin.sock'),
  },
  questionsPort: 32_600,
  token: 'secret',
  folder,
})

describe('the configuration of Caddy', () => {
  it.skipIf(why !== null).each<[string, Partial<EdgeSettings>]>([
    ['with the ports of the web', {}],
    ['with other ports', { httpPort: 8081, httpsPort: 8443 }],
    ['behind proxies', { trustedProxies: ['10.0.0.1', '192.168.0.0/16', '2001:db8::/32', '::1'] }],
  ])('is valid for the Caddy of this machine: %s', async (_, changes) => {
    await using folder = await temporaryDirectory()
    // Operators' paths have spaces, and characters with a meaning in JSON.
    const path = join(folder.path, 'with "quotes" and spaces')
    await mkdir(path)
    const file = join(folder.path, 'caddy.json')
    await writeFile(file, JSON.stringify(caddyConfiguration({ ...settingsIn(path), ...changes })))
    const { stdout } = await promisify(execFile)('caddy', ['validate', '--config', file], {
      env: { HOME: path, PATH: process.env['PATH'] },
    })
    expect(stdout).toContain('Valid configuration')
  })

  it('lets only the gateway decide about certificates', () => {
    const { apps } = caddyConfiguration(settingsIn('/edge'))
    expect(apps).toMatchObject({
      tls: {
        automation: {
          policies: [
            { get_certificate: [{ via: 'http', url: 'http://127.0.0.1:32600/secret/certificate' }], on_demand: true },
          ],
          on_demand: { ask: 'http://127.0.0.1:32600/secret/ask' },
        },
      },
    })
    expect(JSON.stringify(apps)).not.toContain('letsencrypt')
  })

  it('has no secret and no path in anything that a visitor could see', () => {
    const text = JSON.stringify(caddyConfiguration(settingsIn('/edge')))
    const bodies = [...text.matchAll(/"body":"([^"]*)"/g)].map(([, body]) => body).join()
    expect(bodies).not.toMatch(/secret|\/edge|caddy/i)
  })
})
