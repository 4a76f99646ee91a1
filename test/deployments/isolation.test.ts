import { readdir } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createConfinement, warningOf } from '../../server/src/deployments/runner/confinement.ts'
import { findSandbox, sandboxArguments } from '../../server/src/deployments/runner/sandbox.ts'
import { findProcesses } from '../../server/src/platform/processes.ts'
import { deployAndSettle } from '../harness/deployments.ts'
import { nodeApp, repository } from '../harness/repository.ts'
import { type TestServer, testServer } from '../harness/server.ts'

const isRoot = process.getuid?.() === 0
if (!isRoot) console.log('not root: users of their own for apps are not tested; bubblewrap is, where it works')
const sandbox = isRoot ? null : await findSandbox(process.env['PATH'] ?? '')
const isDivided = isRoot || sandbox !== null

/** Tries all that it should not be able to do, and tells what it got. */
const spy = `
const { readFileSync, readdirSync, writeFileSync } = require('node:fs')
const { connect } = require('node:net')
const { join } = require('node:path')
const tried = {}
const attempt = (name, what) => {
  try { const got = what(); tried[name] = got === undefined ? 'done' : String(got) } catch (error) { tried[name] = error.code ?? 'error' }
}
const { DATA, SERVER_PID, OTHER_PID, OTHER_SOURCE, SOCKETS } = process.env
for (const path of ['secret.key', 'postgres/data/PG_VERSION', 'git/config']) attempt('read ' + path, () => readFileSync(join(DATA, path)))
for (const path of ['', 'apps', 'logs', 'git', 'files', 'postgres', 'databases']) attempt('list ' + path, () => readdirSync(join(DATA, path)))
for (const path of ['', 'apps', 'runtime', 'runtime/bin', 'logs']) attempt('write ' + path, () => writeFileSync(join(DATA, path, 'planted'), ''))
attempt('overwrite npm', () => writeFileSync(join(DATA, 'runtime/bin/npm'), 'x', { flag: 'a' }))
for (const [who, pid] of [['server', SERVER_PID], ['other', OTHER_PID]]) {
  attempt(who + ' variables', () => readFileSync('/proc/' + pid + '/environ'))
  attempt(who + ' memory', () => readFileSync('/proc/' + pid + '/mem'))
  attempt(who + ' files', () => readdirSync('/proc/' + pid + '/fd'))
  attempt(who + ' folder', () => readdirSync('/proc/' + pid + '/cwd'))
  attempt(who + ' root', () => readdirSync('/proc/' + pid + '/root'))
  attempt(who + ' signal', () => { process.kill(Number(pid), 0) })
}
attempt('other source', () => readFileSync(join(OTHER_SOURCE, 'server.js')))
attempt('list other source', () => readdirSync(OTHER_SOURCE))
const environment = Object.keys(process.env).sort()
let everyone = ''
for (const pid of readdirSync('/proc')) { try { everyone += readFileSync('/proc/' + pid + '/environ', 'latin1') } catch {} }
const socket = connect(SOCKETS)
const finish = (state) => {
  tried['server socket'] = state
  require('node:http').createServer((request, response) => response.end(JSON.stringify({ tried, environment, sees: everyone.includes('the-others-secret'), groups: process.getgroups?.(), uid: process.getuid?.() }))).listen(process.env.PORT)
}
socket.once('connect', () => { socket.destroy(); finish('done') })
socket.once('error', (error) => finish(error.code))
`

let server: TestServer
let project: string

beforeAll(async () => {
  server = await testServer()
  project = (await server.client.projects.create({ body: { name: 'isolation' } })).id
})
afterAll(() => server?.[Symbol.asyncDispose]())

describe.skipIf(!isDivided)('an app', () => {
  test('reads nothing of the server or of another app, and changes nothing of theirs', async () => {
    await using other = await repository(nodeApp('other'))
    const neighbour = await deployAndSettle(server.client, project, {
      name: 'other',
      git_url: other.url,
      env_vars: { TOKEN: 'the-others-secret' },
    })
    expect(neighbour.status).toBe('running')
    const [pid] = await findProcesses({ name: 'FAIRLEAD_DEPLOYMENT_ID', value: neighbour.id })
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
    const got = (await (await fetch(spied.url)).json()) as {
      tried: Record<string, string>
      environment: string[]
      sees: boolean
      groups: number[]
      uid: number
    }
    const refusals = new Set(['EACCES', 'EPERM', 'ENOENT', 'ESRCH', 'ECONNREFUSED', 'ENOTDIR', 'EROFS'])
    expect(Object.entries(got.tried).filter(([, outcome]) => !refusals.has(outcome))).toEqual([])
    expect(got.sees).toBe(false)
    expect(got.environment).toEqual(
      [
        ...['DATA', 'FAIRLEAD_DEPLOYMENT_ID', 'HOME', 'LANG', 'NODE_ENV', 'OTHER_PID', 'OTHER_SOURCE', 'PATH', 'PORT'],
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

test('variables of an app have no hold on how it is started', async () => {
  await using app = await repository(nodeApp('fine'))
  const deployed = await deployAndSettle(server.client, project, {
    name: 'preloads',
    git_url: app.url,
    env_vars: { NODE_OPTIONS: '--require /nonexistent-preload.js' },
  })
  // The app itself fails by it; what starts the app, with the rights of the server, never sees it.
  expect(deployed.status).toBe('failed')
  expect(deployed.failure?.message).toContain('nonexistent-preload')
})

test('who deploys where nothing divides apps is told so', () => {
  expect(warningOf({ sandbox: null }, false)).toContain('deploy only code that you trust')
  expect(warningOf({ sandbox: '/usr/bin/bwrap' }, false)).toBeNull()
  expect(warningOf({ sandbox: null }, true)).toBeNull()
})

test('bubblewrap gets the release’s own folders and nothing else of the data directory', () => {
  const args = sandboxArguments(
    { directory: '/data/apps/a/releases/r', appDirectory: '/data/apps/a' },
    { programs: ['/data/runtime/bin'], cwd: '/data/apps/a/releases/r/source' },
  )
  const bound = args.filter((each, at) => each.startsWith('/data') && args[at - 1]?.includes('bind'))
  expect(bound).toEqual(['/data/runtime/bin', ...['/data/apps/a/releases/r', '/data/apps/a/home', '/data/apps/a/tmp']])
  expect(args).toContain('--unshare-pid')
  expect(args.at(-1)).toBe('--')
})

test('a sandboxed command is started by bubblewrap', async () => {
  const confinement = createConfinement({ cgroups: null, prlimit: null, sandbox: '/usr/bin/bwrap', programs: [] })
  const entry = await confinement.open(
    {
      id: 'dep_1',
      directory: '/d',
      appDirectory: '/a',
      logDirectory: '/l',
      user: null,
      limits: { memoryBytes: 1, cpus: 1 },
      variables: {},
    },
    'app',
  )
  expect(entry.prefix[0]).toBe('/usr/bin/bwrap')
  expect(entry.groups).toEqual([])
})
