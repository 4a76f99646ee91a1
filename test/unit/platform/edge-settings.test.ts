import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadConfig, publicOrigin } from '../../../server/src/platform/config.ts'
import { prefix } from '../../harness/temporary.ts'

const least = { FAIRLEAD_DOMAIN: 'example.com', FAIRLEAD_ACME_EMAIL: 'operator@example.com' }

describe('the settings of the edge', () => {
  let folder: string
  const files = { text: '', program: '', certificate: '' }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), prefix))
    for (const name of ['text', 'program', 'certificate'] as const) files[name] = join(folder, name)
    await writeFile(files.text, 'nothing')
    await writeFile(files.program, '#!/bin/true\n', { mode: 0o755 })
    await writeFile(files.certificate, '-----BEGIN CERTIFICATE-----\n')
  })

  afterAll(() => rm(folder, { recursive: true }))

  it('do not use TLS by default', () => {
    expect(loadConfig({}, {}).edge).toBeNull()
  })

  it('need only a domain and an email address', () => {
    const config = loadConfig({}, least)
    expect(config.edge).toEqual({
      domain: 'example.com',
      dashboardHost: 'fairlead.example.com',
      acme: { email: 'operator@example.com', url: 'https://acme-v02.api.letsencrypt.org/directory', ca: null },
      httpPort: 80,
      httpsPort: 443,
      dnsServers: null,
      dnsUpdates: null,
    })
    const apps = { mode: 'hostnames', domain: 'example.com', scheme: 'https', publicPort: 443, gatewayPort: 8080 }
    expect(config).toMatchObject({ apps, localMode: false, outbound: { mode: 'public' } })
    expect(publicOrigin(config, 3000)).toBe('https://fairlead.example.com')
  })

  it('have the port of HTTPS in the addresses of the dashboard and of apps', () => {
    const config = loadConfig(
      {},
      {
        ...least,
        FAIRLEAD_EDGE_HTTPS_PORT: '8443',
        FAIRLEAD_EDGE_HTTP_PORT: '8081',
        FAIRLEAD_DASHBOARD_HOST: 'my.test',
      },
    )
    expect(config).toMatchObject({ edge: { httpPort: 8081, httpsPort: 8443 }, apps: { publicPort: 8443 } })
    expect(publicOrigin(config, 3000)).toBe('https://my.test:8443')
  })

  it('accept servers for DNS, of both families, with and without a port', () => {
    const servers = '9.9.9.9, [2620:fe::fe]:5353,127.0.0.1:53,[::1]'
    expect(loadConfig({}, { ...least, FAIRLEAD_DNS_SERVERS: servers }).edge?.dnsServers).toEqual([
      { address: '9.9.9.9', port: 53 },
      { address: '2620:fe::fe', port: 5353 },
      { address: '127.0.0.1', port: 53 },
      { address: '::1', port: 53 },
    ])
  })

  it('accept the way of updating DNS records', () => {
    const updates = (given: Record<string, string>) => loadConfig({}, { ...least, ...given }).edge?.dnsUpdates
    const key = { FAIRLEAD_DNS_UPDATE_KEY: files.text }
    expect(updates({ ...key, FAIRLEAD_DNS_UPDATE_SERVER: 'ns.example.com:5353' })).toEqual({
      kind: 'nsupdate',
      server: 'ns.example.com',
      port: 5353,
      keyFile: files.text,
    })
    expect(updates({ ...key, FAIRLEAD_DNS_UPDATE_SERVER: '[::1]' })).toMatchObject({ server: '::1', port: 53 })
    expect(updates({ FAIRLEAD_DNS_UPDATE_COMMAND: files.program })).toEqual({ kind: 'command', program: files.program })
  })

  it('refuse an invalid program, and a folder in place of a file', () => {
    const load = (given: Record<string, string>) => () => loadConfig({}, { ...least, ...given })
    expect(load({ FAIRLEAD_DNS_UPDATE_COMMAND: files.text })).toThrow(/must be a program that .* \(EACCES\)/)
    expect(load({ FAIRLEAD_DNS_UPDATE_COMMAND: folder })).toThrow(/must be a program that .* \(a folder\)/)
    expect(load({ FAIRLEAD_ACME_CA: files.text })).toThrow('FAIRLEAD_ACME_CA must be a file with certificates in PEM')
  })

  it('accept the operator’s authority', () => {
    const given = { FAIRLEAD_ACME_URL: 'https://ca.test:14000/dir', FAIRLEAD_ACME_CA: files.certificate }
    expect(loadConfig({}, { ...least, ...given }).edge?.acme).toEqual({
      email: 'operator@example.com',
      url: 'https://ca.test:14000/dir',
      ca: files.certificate,
    })
  })

  it('have no ports of apps, whose range may overlap others', () => {
    loadConfig({}, { ...least, FAIRLEAD_RELEASE_PORTS: '20000-20999' })
  })

  it.each([
    [{ FAIRLEAD_DOMAIN: 'example.com' }, 'FAIRLEAD_ACME_EMAIL must be set with FAIRLEAD_DOMAIN'],
    [{ FAIRLEAD_ACME_EMAIL: 'a@example.com' }, 'FAIRLEAD_ACME_EMAIL has no effect unless FAIRLEAD_DOMAIN is set'],
    [{ FAIRLEAD_EDGE_HTTP_PORT: '81' }, 'FAIRLEAD_EDGE_HTTP_PORT has no effect unless'],
    [{ ...least, FAIRLEAD_DOMAIN: 'Example.com' }, 'FAIRLEAD_DOMAIN must be a domain name in lower case'],
    [{ ...least, FAIRLEAD_DOMAIN: 'localhost' }, 'FAIRLEAD_DOMAIN must be a domain name with a dot'],
    [{ ...least, FAIRLEAD_DOMAIN: '192.0.2.1' }, 'FAIRLEAD_DOMAIN must be a domain name with a dot'],
    [{ ...least, FAIRLEAD_DOMAIN: '*.example.com' }, 'FAIRLEAD_DOMAIN must be a domain name'],
    [
      { ...least, FAIRLEAD_DOMAIN: `${'a'.repeat(64)}.com` },
      'FAIRLEAD_DOMAIN must have at most 190 characters, and 63',
    ],
    [{ ...least, FAIRLEAD_DOMAIN: `${'a.'.repeat(95)}com` }, 'FAIRLEAD_DOMAIN must have at most 190 characters'],
    [{ ...least, FAIRLEAD_ACME_EMAIL: 'operator' }, 'FAIRLEAD_ACME_EMAIL must be an e-mail address'],
    [{ ...least, FAIRLEAD_ACME_EMAIL: 'a@b.c,d@e.f' }, 'FAIRLEAD_ACME_EMAIL must be an e-mail address'],
    [{ ...least, FAIRLEAD_ACME_URL: 'http://ca.test/dir' }, 'FAIRLEAD_ACME_URL must be an address such as https://'],
    [{ ...least, FAIRLEAD_ACME_CA: '/nowhere/ca.pem' }, 'FAIRLEAD_ACME_CA must be a file that can be read: /nowhere'],
    [{ ...least, FAIRLEAD_ACME_CA: 'ca.pem' }, 'FAIRLEAD_ACME_CA must be an absolute path'],
    [{ ...least, FAIRLEAD_EDGE_HTTPS_PORT: '0' }, 'FAIRLEAD_EDGE_HTTPS_PORT must be a port from 1 to 65535'],
    [{ ...least, FAIRLEAD_EDGE_HTTPS_PORT: '80' }, '(80) must not be a port of FAIRLEAD_EDGE_HTTP_PORT'],
    [{ ...least, FAIRLEAD_EDGE_HTTPS_PORT: '8080' }, '(8080) must not be a port of FAIRLEAD_GATEWAY_PORT'],
    [{ ...least, FAIRLEAD_EDGE_HTTP_PORT: '10443' }, '(10443) must not be a port of FAIRLEAD_RELEASE_PORTS'],
    [{ ...least, FAIRLEAD_DNS_SERVERS: 'ns.example.com' }, 'FAIRLEAD_DNS_SERVERS'],
    [{ ...least, FAIRLEAD_DNS_SERVERS: '9.9.9.9:0' }, 'must be IP addresses such as'],
    [{ ...least, FAIRLEAD_DNS_SERVERS: ',' }, 'FAIRLEAD_DNS_SERVERS must name at least one server'],
    [{ ...least, FAIRLEAD_DNS_UPDATE_SERVER: 'ns.test' }, 'FAIRLEAD_DNS_UPDATE_KEY must be set with'],
    [{ ...least, FAIRLEAD_DNS_UPDATE_KEY: '/etc/hostname' }, 'FAIRLEAD_DNS_UPDATE_SERVER must be set with'],
    [
      { ...least, FAIRLEAD_DNS_UPDATE_COMMAND: '/bin/true', FAIRLEAD_DNS_UPDATE_SERVER: 'ns.test' },
      'FAIRLEAD_DNS_UPDATE_COMMAND must not be set together with',
    ],
    [
      { ...least, FAIRLEAD_APPS_DOMAIN: 'a.test' },
      'FAIRLEAD_APPS_DOMAIN must not be set together with FAIRLEAD_DOMAIN',
    ],
    [
      { ...least, FAIRLEAD_APPS_SCHEME: 'https' },
      'FAIRLEAD_APPS_SCHEME must not be set together with FAIRLEAD_DOMAIN: it is https',
    ],
    [{ ...least, FAIRLEAD_APPS_PORT: '443' }, 'FAIRLEAD_EDGE_HTTPS_PORT names the port'],
    [
      { ...least, FAIRLEAD_PUBLIC_HOST: 'a.test' },
      'FAIRLEAD_PUBLIC_HOST must not be set together with FAIRLEAD_DOMAIN',
    ],
    [{ ...least, FAIRLEAD_PUBLIC_URL: 'https://a.test' }, 'FAIRLEAD_DASHBOARD_HOST names the host of the dashboard'],
    [{ ...least, FAIRLEAD_DASHBOARD_HOST: 'a-b.example.com' }, 'must have no hyphen before .example.com'],
  ])('refuse %j, and say why', (environment, message) => {
    expect(() => loadConfig({}, environment)).toThrow(message)
  })

  it.each(['example.com', 'my-cloud.example.org', 'a-b.c.example.com', 'cloud.example.com'])(
    'accept %s for the dashboard',
    (host) => {
      expect(loadConfig({}, { ...least, FAIRLEAD_DASHBOARD_HOST: host }).edge?.dashboardHost).toBe(host)
    },
  )
})
