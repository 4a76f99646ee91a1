import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { loadClientSettings } from '../../../server/src/platform/config/client.ts'
import { ConfigError, loadConfig } from '../../../server/src/platform/config.ts'

describe('the configuration', () => {
  it('has the documented defaults', () => {
    const config = loadConfig({}, {})
    expect(config).toMatchObject({ host: '127.0.0.1', port: 3000, localMode: true, outbound: { mode: 'any' } })
    expect(config.dataDirectory).toMatch(/\/\.fairlead$/)
  })

  it('prefers a flag to its variable', () => {
    const environment = { FAIRLEAD_PORT: '1', FAIRLEAD_HOST: '::1', FAIRLEAD_DATA_DIR: '/a' }
    expect(loadConfig({ port: '2', host: '127.0.0.2', dataDir: '/b' }, environment)).toMatchObject({
      port: 2,
      host: '127.0.0.2',
      dataDirectory: '/b',
    })
  })

  it('names every wrong variable at once', () => {
    const environment = {
      FAIRLEAD_PORT: '99999',
      FAIRLEAD_START_TIMEOUT: 'soon',
      FAIRLEAD_TYPO: '1',
      DATABASE_URL: 'x',
    }
    expect(() => loadConfig({}, environment)).toThrow(ConfigError)
    for (const name of Object.keys(environment)) expect(() => loadConfig({}, environment)).toThrow(name)
  })

  it.each([
    ['another host', { FAIRLEAD_HOST: '10.0.0.1' }],
    ['a public URL', { FAIRLEAD_PUBLIC_URL: 'https://fairlead.example.com' }],
    ['a public host', { FAIRLEAD_PUBLIC_HOST: 'apps.example.com' }],
    ['an apps domain', { FAIRLEAD_APPS_DOMAIN: 'apps.example.com' }],
    ['a trusted proxy', { FAIRLEAD_TRUSTED_PROXIES: '10.0.0.1' }],
  ])('is not in local mode with %s', (_, environment) => {
    expect(loadConfig({}, environment)).toMatchObject({ localMode: false, outbound: { mode: 'public' } })
  })

  it('derives the address by which others reach the server', () => {
    const address = (environment: Record<string, string>) => loadConfig({}, environment).publicAddress
    expect(address({})).toEqual({ host: '127.0.0.1' })
    expect(address({ FAIRLEAD_PUBLIC_URL: 'https://Fairlead.example.com:443/' })).toEqual({
      origin: 'https://fairlead.example.com',
    })
    expect(address({ FAIRLEAD_PUBLIC_HOST: 'apps.example.com' })).toEqual({ host: 'apps.example.com' })
    expect(address({ FAIRLEAD_HOST: '0.0.0.0', FAIRLEAD_APPS_DOMAIN: 'apps.example.com' })).toEqual({
      host: 'apps.example.com',
    })
  })

  it('requires a public host or apps domain when the server listens everywhere', () => {
    expect(() => loadConfig({}, { FAIRLEAD_HOST: '0.0.0.0' })).toThrow('FAIRLEAD_PUBLIC_HOST')
    loadConfig({}, { FAIRLEAD_HOST: '0.0.0.0', FAIRLEAD_APPS_DOMAIN: 'apps.example.com' })
  })

  it.each([
    [{}, null],
    [{ DOCKER_HOST: '' }, null],
    [{ DOCKER_HOST: 'unix:///run/engine.sock' }, '/run/engine.sock'],
    [{ FAIRLEAD_RUNTIME: 'process', DOCKER_HOST: 'tcp://10.0.0.1:2375' }, null],
    [{ FAIRLEAD_RUNTIME: 'process,docker' }, '/var/run/docker.sock'],
    [{ FAIRLEAD_RUNTIME: 'process,docker', DOCKER_HOST: 'unix:///run/engine.sock' }, '/run/engine.sock'],
  ])('uses Docker only on request: %j', (environment, socket) => {
    expect(loadConfig({}, environment).docker?.socket ?? null).toBe(socket)
  })

  it.each([
    [{ DOCKER_HOST: 'tcp://127.0.0.1:2375' }, /DOCKER_HOST must be unix:.* is root on its machine/],
    [{ DOCKER_HOST: 'ssh://host' }, /DOCKER_HOST must be unix:.* absolute path/],
    [{ DOCKER_HOST: 'unix://docker.sock' }, /DOCKER_HOST must be unix:.* absolute path/],
    [
      { FAIRLEAD_RUNTIME: 'podman' },
      /FAIRLEAD_RUNTIME must be process, process,docker .*, or docker to run only containers/,
    ],
    [{ FAIRLEAD_DOCKER_BASE: 'https://debian' }, /FAIRLEAD_DOCKER_BASE must be the name of an image/],
  ])('refuses the engine of %j, and says why', (environment, message) => {
    expect(() => loadConfig({}, environment)).toThrow(message)
  })

  it.each([
    [{ FAIRLEAD_RUNTIME: 'process,docker' }, null],
    [{ FAIRLEAD_RUNTIME: 'docker' }, { base: null }],
    [{ FAIRLEAD_RUNTIME: 'docker', FAIRLEAD_DOCKER_BASE: 'debian:12' }, { base: 'debian:12' }],
  ])('runs all programs in containers only on request: %j', (environment, alone) => {
    expect(loadConfig({}, environment).docker).toMatchObject({ socket: '/var/run/docker.sock', alone })
  })

  it('keeps the ports of releases, of apps and of databases apart', () => {
    expect(() => loadConfig({}, { FAIRLEAD_RELEASE_PORTS: '25000-40000' })).toThrow(
      'FAIRLEAD_APP_PORTS (20000-29999) must not overlap FAIRLEAD_RELEASE_PORTS (25000-40000)',
    )
    expect(() => loadConfig({}, { FAIRLEAD_RELEASE_PORTS: '30999-40000' })).toThrow('FAIRLEAD_DATABASE_PORTS')
    loadConfig({}, { FAIRLEAD_RELEASE_PORTS: '31000-40000', FAIRLEAD_APP_PORTS: '10000-19999' })
    const overlapping = { FAIRLEAD_DATABASE_PORTS: '29000-30500' }
    const message = 'FAIRLEAD_DATABASE_PORTS (29000-30500) must not overlap FAIRLEAD_APP_PORTS (20000-29999)'
    expect(() => loadConfig({}, overlapping)).toThrow(message)
    expect(() => loadConfig({}, { FAIRLEAD_APP_PORTS: '30999-31000' })).toThrow('FAIRLEAD_DATABASE_PORTS (30000-30999)')
    loadConfig({}, { ...overlapping, FAIRLEAD_APP_PORTS: '20000-28999' })
    // An unused range may overlap another range.
    loadConfig({}, { ...overlapping, FAIRLEAD_APPS_DOMAIN: 'apps.example.com' })
    loadConfig({}, { ...overlapping, FAIRLEAD_DATABASES_URL: 'postgresql://admin@db.example.com/postgres' })
  })

  it('keeps the addresses of containers and of processes apart, and takes whole networks', () => {
    const settings = { FAIRLEAD_APP_NETWORK: '10.0.0.0/8', FAIRLEAD_CONTAINER_NETWORK: '10.1.0.0/16' }
    expect(() => loadConfig({}, settings)).toThrow('FAIRLEAD_CONTAINER_NETWORK must have no addresses of')
    loadConfig({}, { ...settings, FAIRLEAD_APP_NETWORK: 'none' })
    const { containerNetwork } = loadConfig({}, { FAIRLEAD_CONTAINER_NETWORK: '172.30.0.0/16' })
    expect(containerNetwork).toEqual({ first: 172 * 2 ** 24 + 30 * 2 ** 16, bits: 16 })
    for (const wrong of ['none', '10.1.0.1/16', '10.0.0.0/25', '2001:db8::/32', '10.1.0.0']) {
      const load = () => loadConfig({}, { FAIRLEAD_CONTAINER_NETWORK: wrong })
      expect(load, wrong).toThrow('prefix of 8 to 24 bits')
    }
  })

  it.each([
    { FAIRLEAD_BUILD_TIMEOUT: '3000000' },
    { FAIRLEAD_UIDS: '1-500' },
    { FAIRLEAD_PUBLIC_HOST: 'a b/../x' },
    { FAIRLEAD_PUBLIC_URL: 'fairlead.example.com' },
    { FAIRLEAD_PUBLIC_URL: 'ftp://fairlead.example.com' },
    { FAIRLEAD_PUBLIC_URL: 'https://fairlead.example.com/path' },
    { FAIRLEAD_PUBLIC_URL: 'https://user:secret@fairlead.example.com' },
    { FAIRLEAD_UPLOAD_IDLE_TIMEOUT: 'never' },
    { FAIRLEAD_APP_PORTS: '10000-10010' },
    { FAIRLEAD_BUILD_ENV: '{"A":"\\u0000"}' },
    { FAIRLEAD_SECRET_KEY: `!!${'A'.repeat(43)}` },
    { FAIRLEAD_TRUSTED_PROXIES: '10.0.0.1/' },
    { FAIRLEAD_OUTBOUND_PORTS: '444,http' },
    { FAIRLEAD_OUTBOUND_PORTS: '70000' },
    { FAIRLEAD_WEBHOOK_RETENTION_DAYS: '6' },
    { FAIRLEAD_ON_STOP: 'apps' },
  ])('refuses %j', (environment) => {
    expect(() => loadConfig({}, environment)).toThrow(ConfigError)
  })

  it('never repeats a secret in an error', () => {
    expect(() => loadConfig({}, { DATABASE_URL: 'mysql://u:hunter2@h/d' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('hunter2') }),
    )
  })

  it('throws only ConfigError for any environment', () => {
    const names = [
      'FAIRLEAD_PORT',
      'FAIRLEAD_APP_PORTS',
      'FAIRLEAD_BUILD_ENV',
      'FAIRLEAD_REGIONS',
      'FAIRLEAD_SECRET_KEY',
      'FAIRLEAD_PUBLIC_URL',
    ]
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names), fc.string()), (environment) => {
        try {
          loadConfig({}, environment)
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError)
        }
      }),
    )
  })
})

describe('the configuration of fairlead api', () => {
  const apiKey = 'fl_secret'

  it.each([
    ['https://fairlead.example.com', 'https://fairlead.example.com/v1'],
    ['https://fairlead.example.com/', 'https://fairlead.example.com/v1'],
    ['https://fairlead.example.com/v1/', 'https://fairlead.example.com/v1'],
    ['http://127.0.0.1:3000/v1', 'http://127.0.0.1:3000/v1'],
  ])('takes %s', (url, baseUrl) => {
    expect(loadClientSettings({ FAIRLEAD_URL: url, FAIRLEAD_API_KEY: apiKey }).given).toEqual({ baseUrl, apiKey })
  })

  it.each([
    { FAIRLEAD_API_KEY: apiKey },
    { FAIRLEAD_URL: 'fairlead.example.com', FAIRLEAD_API_KEY: apiKey },
    { FAIRLEAD_URL: 'file:///etc', FAIRLEAD_API_KEY: apiKey },
    { FAIRLEAD_URL: 'https://user:secret@fairlead.example.com', FAIRLEAD_API_KEY: apiKey },
    { FAIRLEAD_URL: 'https://fairlead.example.com?a', FAIRLEAD_API_KEY: apiKey },
  ])('refuses %j without repeating it', (environment) => {
    expect(() => loadClientSettings(environment)).toThrow(/FAIRLEAD_URL must (?!.*secret)/)
  })

  it.each([{}, { FAIRLEAD_API_KEY: '' }, { FAIRLEAD_API_KEY: 'fl_secret\nX-Other: 1' }])(
    'refuses the key of %j',
    (given) => {
      const environment = { FAIRLEAD_URL: 'http://localhost', ...given }
      expect(() => loadClientSettings(environment)).toThrow(/FAIRLEAD_API_KEY must (?!.*secret)/)
    },
  )

  it('does not disturb a server with the same environment', () => {
    loadConfig({}, { FAIRLEAD_URL: 'http://localhost', FAIRLEAD_API_KEY: apiKey })
  })
})
