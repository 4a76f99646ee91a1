import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { gitServer } from '../../harness/git-server.ts'
import { listening } from '../../harness/listening.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { type OwnServer, ownServer } from '../../harness/server.ts'
import { noSshServer, sshServer } from '../../harness/ssh-server.ts'

let server: OwnServer
let projectId: string
beforeAll(async () => {
  server = await ownServer({ FAIRLEAD_DRAIN_TIMEOUT: '1' })
  projectId = (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
})
afterAll(() => server?.[Symbol.asyncDispose]())

const deploy = (name: string, git_url: string, more: object = {}) =>
  deployAndSettle(server.client, projectId, { name, git_url, ...more })
const paramsOf = async (name: string) => {
  const { apps } = await server.client.apps.list({ params: { project_id: projectId } })
  return { project_id: projectId, app_id: apps.find((app) => app.name === name)?.id ?? '' }
}
const refused = { failure: { stage: 'fetch', code: 'repository_refused' } }

describe('a stored token', () => {
  const token = `token-${randomBytes(12).toString('hex')}`

  it('opens the repository for every later deployment, by any user or key, until it is deleted', async () => {
    await using source = await repository(nodeApp('private'))
    await using remote = await gitServer(source, { token })
    expect(await deploy('shop', remote.url)).toMatchObject(refused)
    const params = await paramsOf('shop')
    const stored = await server.client.gitCredentials.set({ params, body: { kind: 'token', token } })
    expect(stored.git_credentials).toMatchObject({ kind: 'token', git_url: remote.url, public_key: null })
    expect(await deploy('shop', remote.url)).toMatchObject({ status: 'running' })
    const applied = await server.client.apps.apply({ params: { project_id: projectId, id: params.app_id }, body: {} })
    await expect
      .poll(
        async () => (await server.client.deployments.get({ params: { project_id: projectId, id: applied.id } })).status,
      )
      .toBe('running')
    // A token of the deployment takes precedence.
    expect(await deploy('shop', remote.url, { git_token: 'another' })).toMatchObject(refused)
    // Other apps do not get the token.
    expect(await deploy('other', remote.url)).toMatchObject(refused)

    expect(JSON.stringify(await server.client.gitCredentials.get({ params }))).not.toContain(token)
    expect(JSON.stringify(server.log)).not.toContain(token)
    const [row] = await server.database.query<{ secret: Buffer }>('select secret from git_credentials')
    expect(row?.secret.includes(token)).toBe(false)
    await server.client.gitCredentials.delete({ params })
    expect(await deploy('shop', remote.url)).toMatchObject(refused)
  })

  it('is sent only to its repository: to no other address, host or folder, and along no redirect', async () => {
    const seen: (string | undefined)[] = []
    await using elsewhere = await listening((request, response) => {
      seen.push(request.headers.authorization)
      response.writeHead(404).end()
    })
    const sent: string[] = []
    const redirecting = createServer((request, response) => {
      sent.push(request.headers.authorization ?? 'none')
      response.writeHead(302, { location: `${elsewhere.url}${request.url}` }).end()
    }).listen(0, '127.0.0.1')
    await once(redirecting, 'listening')
    const origin = `http://127.0.0.1:${(redirecting.address() as AddressInfo).port}`
    await deploy('bound', `${origin}/team/shop.git`)
    const params = await paramsOf('bound')
    await server.client.gitCredentials.set({ params, body: { kind: 'token', token } })
    sent.length = 0
    expect((await deploy('bound', `${origin}/team/shop.git`)).failure?.message).toContain('redirects elsewhere')
    expect(new Set(sent)).toEqual(new Set([`Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`]))
    sent.length = 0
    await deploy('bound', `${origin}/team/other.git`)
    await deploy('bound', `${elsewhere.url}/team/shop.git`)
    expect(new Set([...sent, ...seen])).toEqual(new Set(['none', undefined]))
    redirecting.close()
  })
})

const noSsh = await noSshServer()
if (noSsh !== null) skipped('deploy keys', noSsh)

describe.skipIf(noSsh !== null)('a deploy key', () => {
  it('opens the repository by ssh, from a key that shows only its public part', async () => {
    await using source = await repository(nodeApp('by ssh'))
    await using remote = await sshServer(source)
    expect(await deploy('keyed', remote.url)).toMatchObject(refused)
    const params = await paramsOf('keyed')
    const made = await server.client.gitCredentials.set({ params, body: { kind: 'deploy_key' } })
    const { public_key = '', fingerprint } = made.git_credentials ?? {}
    expect(public_key).toMatch(/^ssh-ed25519 AAAA[\w+/]+ fairlead-app_\w+$/)
    expect(fingerprint).toMatch(/^SHA256:[\w+/]{43}$/)
    await remote.allow(public_key ?? '')
    const watch = watchProcesses('PRIVATE KEY')
    const deployed = await deploy('keyed', remote.url)
    expect(deployed).toMatchObject({ status: 'running', failure: null })
    expect(await (await fetch(deployed.url)).text()).toBe('by ssh')
    expect(await watch()).toBe(false)
    expect(await deploy('stranger', remote.url)).toMatchObject(refused)
    // A new key invalidates the previous one.
    await server.client.gitCredentials.set({ params, body: { kind: 'deploy_key', git_url: remote.url } })
    expect(await deploy('keyed', remote.url)).toMatchObject(refused)
  })

  it('remembers a host’s key after the first use, for each app, and refuses another key', async () => {
    await using source = await repository(nodeApp('known'))
    await using remote = await sshServer(source)
    await deploy('met', remote.url)
    const params = await paramsOf('met')
    const { git_credentials } = await server.client.gitCredentials.set({ params, body: { kind: 'deploy_key' } })
    await remote.allow(git_credentials?.public_key ?? '')
    expect(await deploy('met', remote.url)).toMatchObject({ status: 'running' })
    const { known_hosts } = await server.client.gitCredentials.get({ params })
    expect(known_hosts).toMatchObject([{ host: remote.host, fingerprint: expect.stringMatching(/^SHA256:/) }])
    await remote.changeHostKey()
    const { failure } = await deploy('met', remote.url)
    expect(failure).toMatchObject({ code: 'host_key_changed' })
    expect(failure?.message).toContain('fairlead git forget')
    expect((await server.client.gitCredentials.get({ params })).known_hosts).toEqual(known_hosts)

    await server.client.gitCredentials.forgetHosts({ params })
    expect((await server.client.gitCredentials.get({ params })).known_hosts).toEqual([])
    expect(await deploy('met', remote.url)).toMatchObject({ status: 'running' })
    expect((await server.client.gitCredentials.get({ params })).known_hosts).not.toEqual(known_hosts)
  })

  it('remembers 200 hosts of an app: a commit cannot exceed this number', async () => {
    await using source = await repository(nodeApp('many hosts'))
    await using remote = await sshServer(source)
    await deploy('many', remote.url)
    const params = await paramsOf('many')
    await server.client.gitCredentials.forgetHosts({ params })
    await server.database.query(
      `insert into git_hosts (app_id, host, key)
       select $1, 'host' || number || '.example:22', 'ssh-ed25519 AAAA' from generate_series(1, 200) as number`,
      [params.app_id],
    )
    expect(await deploy('many', remote.url)).toMatchObject({ failure: { code: 'too_many_hosts' } })
    expect((await server.client.gitCredentials.get({ params })).known_hosts).toHaveLength(200)
  })
})

/**
 * Searches for a text in the arguments and variables of all processes except this one, until the returned function is
 * called.
 */
function watchProcesses(text: string): () => Promise<boolean> {
  let done = false
  const watching = (async () => {
    let found = false
    while (!done) {
      const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
      for (const pid of pids) {
        for (const file of ['cmdline', 'environ']) {
          const content = await readFile(`/proc/${pid}/${file}`, 'latin1').catch(() => '')
          found ||= content.includes(text)
        }
      }
      await sleep(10)
    }
    return found
  })()
  return () => {
    done = true
    return watching
  }
}
