import { request } from 'node:http'
import { describe, expect, it } from 'vitest'
import { deployAndSettle } from '../harness/deployments.ts'
import { gitServer } from '../harness/git-server.ts'
import { freePort } from '../harness/ports.ts'
import { nodeApp, repository } from '../harness/repository.ts'
import { ownServer } from '../harness/server.ts'

const askHost = (port: number, host: string): Promise<{ status: number; body: string }> =>
  new Promise((done, fail) => {
    request({ host: '127.0.0.1', port, headers: { host }, agent: false }, async (response) => {
      let body = ''
      for await (const chunk of response) body += chunk
      done({ status: response.statusCode ?? 0, body })
    })
      .on('error', fail)
      .end()
  })

describe('a server with an apps domain', () => {
  it('gives each app a host name, so that two projects never collide', async () => {
    const gatewayPort = await freePort()
    await using server = await ownServer({
      FAIRLEAD_APPS_DOMAIN: 'apps.example.com',
      FAIRLEAD_GATEWAY_PORT: String(gatewayPort),
      FAIRLEAD_OUTBOUND: 'any',
    })
    await using one = await repository(nodeApp('one'))
    await using two = await repository(nodeApp('two'))
    await using first = await gitServer(one)
    await using second = await gitServer(two)
    const deploy = async (gitUrl: string, name: string) => {
      const project = await server.client.projects.create({ body: { name: 'p' } })
      return deployAndSettle(server.client, project.id, { name, git_url: gitUrl })
    }
    const [a, b] = [await deploy(first.url, 'My Wéb app!'), await deploy(second.url, 'My Wéb app!')]
    expect(a.failure).toBeNull()
    expect(a.url).toMatch(/^https:\/\/my-web-app-[0-9a-z]{8}\.apps\.example\.com$/)
    expect(b.url).not.toBe(a.url)
    expect(await askHost(gatewayPort, new URL(a.url).host)).toEqual({ status: 200, body: 'one' })
    expect(await askHost(gatewayPort, `${new URL(b.url).host.toUpperCase()}:443`)).toEqual({ status: 200, body: 'two' })
    expect((await askHost(gatewayPort, 'nobody.apps.example.com')).status).toBe(404)
  })
})

describe('a public server', () => {
  it('does not fetch from private addresses', async () => {
    await using server = await ownServer({ FAIRLEAD_PUBLIC_HOST: 'apps.example.com' })
    await using app = await repository(nodeApp('secret'))
    await using git = await gitServer(app)
    const project = await server.client.projects.create({ body: { name: 'p' } })
    for (const url of [git.url, git.url.replace('127.0.0.1', 'localhost'), git.url.replace('127.0.0.1', '0x7f.1')]) {
      const deployment = await deployAndSettle(server.client, project.id, { name: 'a', git_url: url })
      expect(deployment.failure, url).toMatchObject({ stage: 'fetch', code: 'address_refused' })
    }
    expect(git.requests).toEqual([])
  })

  it('fetches from an allowed address, at exactly the checked address', async () => {
    await using server = await ownServer({
      FAIRLEAD_PUBLIC_HOST: '127.0.0.1',
      FAIRLEAD_OUTBOUND_ALLOW: '127.0.0.0/8, ::1',
    })
    await using app = await repository(nodeApp('allowed'))
    await using git = await gitServer(app)
    const project = await server.client.projects.create({ body: { name: 'p' } })
    const deployment = await deployAndSettle(server.client, project.id, { name: 'a', git_url: git.url })
    expect(deployment).toMatchObject({ status: 'running', failure: null, branch: 'main' })
    expect(await (await fetch(deployment.url)).text()).toBe('allowed')
  })
})

it('offers the regions that the operator has configured', async () => {
  await using server = await ownServer({ FAIRLEAD_REGIONS: 'eu-1,us-1', FAIRLEAD_DEFAULT_REGION: 'us-1' })
  expect((await server.client.projects.create({ body: { name: 'p' } })).region).toBe('us-1')
  expect((await server.client.projects.create({ body: { name: 'p', region: 'eu-1' } })).region).toBe('eu-1')
  await expect(server.client.projects.create({ body: { name: 'p', region: 'mars' } })).rejects.toMatchObject({
    message: 'region: must be one of: eu-1, us-1',
    details: { field: 'region' },
  })
})
