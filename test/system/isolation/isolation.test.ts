import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findSandbox } from '../../../server/src/platform/sandbox/find.ts'
import { deployAndSettle, processesOf, settled } from '../../harness/deployments.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'
import { type Findings, ownFolders, spy, successes } from '../../harness/spy.ts'

const isRoot = process.getuid?.() === 0
if (!isRoot) console.log('not root: users of their own for apps are not tested; bubblewrap is, where it works')
const sandbox = await findSandbox(process.env['PATH'] ?? '', isRoot)
const isDivided = isRoot || sandbox !== null

let server: TestServer
let project: string

beforeAll(async () => {
  server = await testServer()
  project = (await server.client.projects.create({ body: { name: 'isolation' } })).id
})
afterAll(() => server?.[Symbol.asyncDispose]())

describe.skipIf(!isDivided)('an app', () => {
  test('reads and changes nothing of the server or of another app', async () => {
    await using other = await repository(nodeApp('other'))
    const neighbour = await deployAndSettle(server.client, project, {
      name: 'other',
      git_url: other.url,
      env_vars: { TOKEN: 'the-others-secret' },
    })
    expect(neighbour.status).toBe('running')
    const [pid] = await processesOf(neighbour.id)
    const apps = await readdir(`${server.dataDirectory}/apps`)

    await using spying = await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': spy,
    })
    const spied = await deployAndSettle(server.client, project, {
      name: 'spy',
      git_url: spying.url,
      env_vars: {
        DATA: server.dataDirectory,
        SERVER_PID: String(process.pid),
        OTHER_PID: String(pid),
        OTHER_SOURCE: `${server.dataDirectory}/apps/${apps[0]}/releases/${neighbour.id}/source`,
        SOCKETS: `${server.dataDirectory}/postgres/.s.PGSQL.5432`,
      },
    })
    expect(spied.failure).toBeNull()
    const got = (await (await fetch(spied.url)).json()) as Findings
    expect(successes(got, sandbox === null ? {} : ownFolders)).toEqual([])
    expect(got.tried['list apps']).not.toBe(apps[0])
    expect(got.sees).toBe(false)
    expect(got.environment).toEqual(
      [
        ...[
          'DATA',
          'FAIRLEAD_DEPLOYMENT_ID',
          'FAIRLEAD_INSTANCE_MARK',
          'FAIRLEAD_PROCESS_MARK',
          'HOME',
          'LANG',
          'NODE_ENV',
          'NODE_OPTIONS',
          'OTHER_PID',
          'OTHER_SOURCE',
          'PATH',
          'PORT',
        ],
        ...['SERVER_PID', 'SOCKETS', 'TMPDIR'],
        ...got.environment.filter((name) => name.startsWith('npm_') || name === 'PWD'),
      ].sort(),
    )
    if (isRoot) {
      expect(got.uid).not.toBe(0)
      expect(got.groups).toEqual([got.uid])
    }
  })
})

test.skipIf(!isDivided)('an app has no access to its stopped releases', async () => {
  const app = (old: string) => ({
    'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
    'server.js': `const { readdirSync, writeFileSync } = require('node:fs')
const attempt = (what) => { try { what(); return 'done' } catch (error) { return error.code } }
const old = ${JSON.stringify(old)}
const got = () => [attempt(() => readdirSync(old)), attempt(() => writeFileSync(old + '/planted', ''))]
require('node:http').createServer((request, response) => response.end(JSON.stringify(got()))).listen(process.env.PORT)`,
  })
  const { id } = await server.client.projects.create({ body: { name: 'releases' } })
  await using source = await repository(app('/nowhere'))
  const request = { name: 'a', git_url: source.url }
  const first = await deployAndSettle(server.client, id, request)
  const [folder = ''] = (await releasesOnDisk(server.dataDirectory)).filter((each) => each.endsWith(first.id))
  await source.commit(app(join(folder, 'source')))
  const second = await deployAndSettle(server.client, id, request)
  const got = async () => (await fetch(second.url)).json()
  // Once its requests and processes have ended.
  await expect.poll(got).toEqual([expect.stringMatching(/EACCES|ENOENT/), expect.stringMatching(/EACCES|ENOENT/)])
  const params = { project_id: id, id: first.id }
  await server.client.deployments.rollback({ params })
  expect((await settled(server.client, id, first.id)).status).toBe('running')
  expect(await (await fetch(first.url)).json()).toEqual(['ENOENT', 'ENOENT'])
})

test.skipIf(!isDivided)(
  'an app and its build know their user by name, and no other account of the machine',
  async () => {
    const asks = `const { userInfo } = require('node:os')
const { readFileSync } = require('node:fs')
const { username, homedir } = userInfo()
const own = homedir === process.env.HOME
const accounts = readFileSync('/etc/passwd', 'utf8').split('\\n').length`
    await using app = await repository({
      'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
      'build.js': `${asks}\nrequire('node:fs').writeFileSync('built.json', JSON.stringify({ username, own, accounts }))`,
      'server.js': `${asks}\nconst built = JSON.parse(readFileSync('built.json', 'utf8'))
require('node:http').createServer((request, response) =>
  response.end(JSON.stringify({ app: { username, own, accounts }, built }))).listen(process.env.PORT)`,
    })
    const { url, failure } = await deployAndSettle(server.client, project, { name: 'named', git_url: app.url })
    expect(failure).toBeNull()
    const { app: running, built } = (await (await fetch(url)).json()) as Record<'app' | 'built', { username: string }>
    expect(built).toEqual(running)
    if (isRoot && sandbox !== null) expect(running).toEqual({ username: 'app', own: true, accounts: 4 })
    else expect(running.username).not.toBe('')
  },
)

test('variables of an app do not affect its start', async () => {
  await using app = await repository(nodeApp('fine'))
  const deployed = await deployAndSettle(server.client, project, {
    name: 'preloads',
    git_url: app.url,
    env_vars: { NODE_OPTIONS: '--require /nonexistent-preload.js' },
  })
  // Only the app itself fails. The server's starting program never sees the variable.
  expect(deployed.status).toBe('failed')
  expect(deployed.failure?.message).toContain('nonexistent-preload')
})
