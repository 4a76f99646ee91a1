import { mkdir, readdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '@fairlead/server/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { userOf } from '../../../server/src/platform/processes.ts'
import { findProgram } from '../../../server/src/platform/programs.ts'
import { findSandbox } from '../../../server/src/platform/sandbox/find.ts'
import { deployAndSettle, processesOf, settled } from '../../harness/deployments.ts'
import { noBubblewrap, noOrdinaryUser, ordinaryUser, skipped } from '../../harness/ordinary-user.ts'
import type { ServerProcess } from '../../harness/process.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { type Findings, ownFolders, spy, successes } from '../../harness/spy.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { ordinaryServer } from './ordinary-server.ts'

/* A server that does not run as root. Only bubblewrap separates its apps. */

const noUser = await noOrdinaryUser()
const noSandbox = noUser ?? (await noBubblewrap())
if (noUser !== null) skipped('a server of an ordinary user', noUser)
else if (noSandbox !== null) skipped('apps of an ordinary user divided by bubblewrap', noSandbox)

const warning = 'builds and apps run as the user of the server'

const saysOf = (server: ServerProcess) => server.log.map((line) => String(line['msg'])).join('\n')
const buildLog = async (client: Client, project: string, id: string): Promise<string> =>
  (await client.deployments.logs({ params: { project_id: project, id }, query: { stream: 'build' } })).text()

describe.skipIf(noSandbox !== null)('with bubblewrap', () => {
  let given: Awaited<ReturnType<typeof ordinaryServer>>
  beforeAll(async () => {
    given = await ordinaryServer()
  })
  afterAll(() => given?.[Symbol.asyncDispose]())

  it('prints no warning', () => {
    expect(given.server.log.find((line) => line['msg'] === 'isolation of builds and apps')).toMatchObject({
      bubblewrap: true,
    })
    expect(saysOf(given.server)).not.toContain(warning)
  })

  it('an app and its build read and change nothing of the server or of another app', async () => {
    const { data, server, client, project } = given
    await using other = await repository(nodeApp('other'))
    const env_vars = { TOKEN: 'the-others-secret' }
    const neighbour = await deployAndSettle(client, project, { name: 'other', git_url: other.url, env_vars })
    expect(neighbour.failure).toBeNull()
    const [neighboursApp] = await readdir(join(data, 'apps'))
    const [pid] = await processesOf(neighbour.id)

    await using spying = await repository({
      'package.json': JSON.stringify({ scripts: { build: 'node server.js', start: 'node server.js' } }),
      'server.js': spy,
    })
    const spied = await deployAndSettle(client, project, {
      name: 'spy',
      git_url: spying.url,
      env_vars: {
        DATA: data,
        SERVER_PID: String(server.child.pid),
        OTHER_PID: String(pid),
        OTHER_SOURCE: join(data, 'apps', String(neighboursApp), 'releases', neighbour.id, 'source'),
        SOCKETS: join(data, 'postgres', '.s.PGSQL.5432'),
      },
    })
    expect(spied.failure).toBeNull()
    const log = await buildLog(client, project, spied.id)
    expect(log).not.toContain(warning)
    const told = log.split('\n').find((line) => line.startsWith('{"tried"'))
    for (const findings of [JSON.parse(told ?? '') as Findings, await found(spied.url)]) {
      expect(successes(findings, ownFolders)).toEqual([])
      expect(Object.keys(findings.tried).length).toBeGreaterThan(25)
      expect(findings.tried['list apps']).not.toBe(neighboursApp)
      expect(findings.sees).toBe(false)
      expect(findings.environment).not.toContain('FAIRLEAD_BUILD_ENV')
      expect(findings.uid).toBe(ordinaryUser?.uid ?? process.getuid?.())
    }
    expect(await (await fetch(neighbour.url)).text()).toBe('other')
  })

  it('an app works: it writes to its own folders, and stays within its memory limit', async () => {
    const { client, project } = given
    await using source = await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': `const { writeFileSync, readFileSync } = require('node:fs')
const attempt = (what) => { try { what(); return 'done' } catch (error) { return error.code } }
const wrote = ['.', process.env.HOME, process.env.TMPDIR, '/tmp'].map((folder) => {
  writeFileSync(folder + '/file', 'x')
  return readFileSync(folder + '/file', 'utf8')
})
const much = ['/tmp', '/dev/shm', '/run'].map((folder) => attempt(() => writeFileSync(folder + '/much', Buffer.alloc(80e6))))
const outside = ['/', '/dev', '/etc', '/usr', '/home'].map((folder) => attempt(() => writeFileSync(folder + '/planted', 'x')))
require('node:http').createServer((request, response) => {
  response.end(JSON.stringify({ wrote, much, outside }))
}).listen(process.env.PORT)`,
    })
    const made = await deployAndSettle(client, project, { name: 'works', git_url: source.url })
    expect(made.failure).toBeNull()
    const told = (await (await fetch(made.url)).json()) as { much: string[]; outside: string[] }
    expect(told).toMatchObject({ wrote: ['x', 'x', 'x', 'x'] })
    const isModern = (await findSandbox(process.env['PATH'] ?? '', false))?.isModern === true
    if (isModern) expect(told.much).toEqual(['ENOSPC', 'ENOSPC', 'ENOSPC'])
    expect(told.outside.filter((outcome) => !/EROFS|EACCES|ENOENT/.test(outcome))).toEqual([])
  })

  it('an app gets the signal to end, ends in order, and leaves no process', async () => {
    const { client, project } = given
    await using source = await repository({
      'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
      'server.js': `const { spawn } = require('node:child_process')
spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore', env: {} }).unref()
process.on('SIGTERM', () => { console.log('told to end'); process.exit(0) })
require('node:http').createServer((request, response) => response.end('up')).listen(process.env.PORT)`,
    })
    const { id, url, failure } = await deployAndSettle(client, project, { name: 'ends', git_url: source.url })
    expect(failure).toBeNull()
    const before = await processesOf(id)
    expect(before.length).toBeGreaterThan(0)
    await client.deployments.stop({ params: { project_id: project, id } })
    await expect.poll(() => processesOf(id)).toEqual([])
    await expect
      .poll(async () => (await client.deployments.logs({ params: { project_id: project, id } })).text())
      .toContain('told to end')
    expect((await fetch(url)).status).toBe(503)
    await client.deployments.restart({ params: { project_id: project, id } })
    expect((await settled(client, project, id)).status).toBe('running')
    expect(await (await fetch(url)).text()).toBe('up')
  })

  it('a stopping server leaves no process of its user', async () => {
    await using other = await ordinaryServer()
    await using source = await repository(nodeApp('fine'))
    const { id } = await deployAndSettle(other.client, other.project, { name: 'a', git_url: source.url })
    const pids = await processesOf(id)
    expect(pids.map(userOf)).not.toContain(0)
    expect(await other.server.stop()).toBe(0)
    expect(await processesOf(id)).toEqual([])
  })
})

describe.skipIf(noUser !== null)('without bubblewrap', () => {
  it('the server warns at its start, and each deployment in its log', async () => {
    await using programs = await temporaryDirectory()
    const bin = join(programs.path, 'bin')
    await mkdir(bin, { mode: 0o755 })
    await symlink((await findProgram('git', process.env['PATH'] ?? '')) ?? '', join(bin, 'git'))
    await using given = await ordinaryServer({ PATH: bin })
    expect(saysOf(given.server)).toContain(warning)
    await using source = await repository({
      ...nodeApp('fine'),
      'package.json': JSON.stringify({ scripts: { build: 'node -e 1', start: 'node server.js' } }),
    })
    const made = await deployAndSettle(given.client, given.project, { name: 'a', git_url: source.url })
    expect(made.failure).toBeNull()
    expect(await buildLog(given.client, given.project, made.id)).toContain(`warning: ${warning}`)
    expect(await (await fetch(made.url)).text()).toBe('fine')
  })
})

const found = async (url: string): Promise<Findings> => (await (await fetch(url)).json()) as Findings
