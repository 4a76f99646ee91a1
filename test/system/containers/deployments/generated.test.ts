import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startAsking } from '../../../harness/container-app.ts'
import { processesOf } from '../../../harness/deployments.ts'
import { noDocker, startDockerd, type TestDockerd } from '../../../harness/docker.ts'
import { importSystem, systemBase } from '../../../harness/docker-system.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { type OwnServerWithProject, ownServerWithProject } from '../../../harness/project.ts'
import { repository } from '../../../harness/repository.ts'
import { startRun } from '../../../harness/runs.ts'

const why = await noDocker()
if (why !== null) skipped('apps that are built by Fairlead and run in containers', why)

/** Answers with a description of its environment. */
const server = `const { createServer } = require('node:http')
const { existsSync, readFileSync, readlinkSync, writeFileSync } = require('node:fs')
const { FAIRLEAD_DEPLOYMENT_ID, GREETING, HOME, NODE_ENV, NODE_OPTIONS, PATH, TMPDIR } = process.env
writeFileSync(HOME + '/mine', '')
writeFileSync(TMPDIR + '/mine', '')
createServer((request, response) => response.end(JSON.stringify({
  release: readFileSync('release', 'utf8'), isContainer: existsSync('/.dockerenv'), folder: process.cwd(),
  user: require('node:os').userInfo().username, uid: process.getuid(), built: existsSync(HOME + '/built'),
  shadow: readlinkSync('shadow'), node: process.execPath, FAIRLEAD_DEPLOYMENT_ID, GREETING, HOME, NODE_ENV, NODE_OPTIONS, PATH,
}))).listen(process.env.PORT, '127.0.0.1')
`
const nodeApp = (release: string) => ({
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': `const { symlinkSync, writeFileSync } = require('node:fs')
writeFileSync('release', '${release}')
writeFileSync('unreadable', '', { mode: 0 })
symlinkSync('/etc/shadow', 'shadow')
writeFileSync(process.env.HOME + '/built', '')`,
  'server.js': server,
  'worker.js': `console.log('works in a container:', require('node:fs').existsSync('/.dockerenv'))
setInterval(() => {}, 60000)`,
  Procfile: 'web: npm start\nworker: node worker.js\n',
})

interface Answer {
  readonly release: string
  readonly isContainer: boolean
  readonly [name: string]: unknown
}

const pythonApp = {
  'main.py': `import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write((sys.prefix + ' ' + str(os.path.exists('/.dockerenv'))).encode())
    def log_message(self, *arguments):
        pass
http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()\n`,
  'requirements.txt': '# nothing\n',
}

describe.skipIf(why !== null)('a server that runs all programs in containers', () => {
  const stack = new AsyncDisposableStack()
  let dockerd: TestDockerd
  let given: OwnServerWithProject

  beforeAll(async () => {
    dockerd = stack.use(await startDockerd())
    await importSystem(dockerd)
    given = stack.use(await ownServerWithProject({ FAIRLEAD_RELEASE_MB: '200' }))
  }, 180_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  const answer = async (url: string) => (await (await fetch(url)).json()) as Answer
  const containers = () =>
    dockerd.engine.call<{ Id: string; Image: string }[]>({ method: 'GET', path: ['containers', 'json'] })
  const names = async () => {
    const images = await dockerd.engine.call<{ RepoTags: string[] | null }[]>({
      method: 'GET',
      path: ['images', 'json'],
    })
    return images.flatMap(({ RepoTags }) => RepoTags ?? [])
  }
  const logOf = async (id: string, stream: 'build' | 'runtime') =>
    (await given.client.deployments.logs({ ...given.paramsOf(id), query: { stream } })).text()
  const deployed = async (name: string, files: Readonly<Record<string, string>>) => {
    await using source = await repository(files)
    return await given.deploy(name, source.url)
  }

  it('keeps earlier processes, and replaces them by containers without losing a request', async () => {
    await using source = await repository(nodeApp('one'))
    const first = await given.deploy('shop', source.url)
    expect(first).toMatchObject({ status: 'running', failure: null })
    const before = await answer(first.url)
    expect(before).toMatchObject({ release: 'one', isContainer: false })
    await given.server.restart(async () => {
      Object.assign(given.environment, {
        ...{ FAIRLEAD_RUNTIME: 'docker', DOCKER_HOST: dockerd.host, FAIRLEAD_DOCKER_BASE: systemBase },
        FAIRLEAD_CONTAINER_NETWORK: '10.208.0.0/12',
      })
    })
    await expect.poll(() => answer(first.url).catch(() => null), { timeout: 60_000 }).toEqual(before)
    expect(await processesOf(first.id)).not.toEqual([])
    const asking = startAsking(first.url)

    await source.commit(nodeApp('two'))
    const second = await given.deploy('shop', source.url)
    expect(second).toMatchObject({ status: 'running', failure: null })
    const after = await answer(second.url)
    expect(after).toMatchObject({ release: 'two', isContainer: true, user: 'app', built: true, NODE_ENV: 'production' })
    expect(after).toMatchObject({ FAIRLEAD_DEPLOYMENT_ID: second.id, folder: expect.stringContaining(second.id) })
    for (const name of ['HOME', 'shadow', 'NODE_OPTIONS', 'PATH', 'node', 'uid']) {
      expect(String(after[name]).replaceAll(second.id, first.id)).toEqual(String(before[name]))
    }
    expect(await logOf(second.id, 'build')).toMatch(/The image of the release adds 0\.\d MB to its base/)

    await given.client.deployments.rollback(given.paramsOf(first.id))
    expect(await given.end(first.id)).toMatchObject({ status: 'running' })
    expect(await answer(first.url)).toMatchObject({ release: 'one', isContainer: false })
    await given.client.deployments.rollback(given.paramsOf(second.id))
    expect(await given.end(second.id)).toMatchObject({ status: 'running' })
    expect(await answer(first.url)).toMatchObject({ release: 'two', isContainer: true })
    await asking.stop()
    expect(asking.failed).toEqual([])
  }, 240_000)

  it('runs workers, schedules, commands and promotions in containers', async () => {
    const made = await deployed('jobs', nodeApp('jobs'))
    expect(made).toMatchObject({ status: 'running', failure: null })
    const { id: app_id } = await given.appNamed('jobs')
    const params = { project_id: given.projectId, app_id }
    await given.client.processes.update({ params, body: { processes: { worker: { instances: 1 } } } })
    await expect.poll(() => logOf(made.id, 'runtime'), { timeout: 60_000 }).toContain('works in a container: true')

    const look = ['node', '-e', 'console.log(require("node:fs").existsSync("/.dockerenv"), process.cwd())']
    const run = await startRun(given, app_id, look)
    expect(await run.ended).toMatchObject({ code: 0 })
    expect(run.printed.output).toMatch(new RegExp(`^true .*/${made.id}/source\\s*$`))

    const body = { name: 'report', schedule: '5 4 1 1 *', command: look }
    const schedule = await given.client.schedules.create({ params, body })
    const come = 'update schedules set next_at = clock_timestamp() where id = $1'
    await given.server.database.query(come, [schedule.id])
    const runs = async () => (await given.client.runs.list({ params, query: { schedule_id: schedule.id } })).runs
    await expect.poll(async () => (await runs())[0]?.status, { timeout: 60_000 }).toBe('succeeded')

    const { id: copyId } = await given.client.deployments.create({
      params: { project_id: given.projectId },
      body: { name: 'copied', from_deployment_id: made.id, env_vars: { GREETING: 'hello' } },
    })
    const copy = await given.end(copyId)
    expect(copy).toMatchObject({ status: 'running', failure: null })
    const copied = { release: 'jobs', isContainer: true, GREETING: 'hello', FAIRLEAD_DEPLOYMENT_ID: copy.id }
    expect(await answer(copy.url)).toMatchObject(copied)
  }, 240_000)

  it('runs a Python app in its environment, and serves a static site without a container', async () => {
    const python = await deployed('python', pythonApp)
    expect(python).toMatchObject({ status: 'running', failure: null })
    expect(await (await fetch(python.url)).text()).toMatch(/\/source\/\.venv True$/)
    const count = (await containers()).length
    const site = await deployed('site', { 'index.html': 'a page' })
    expect(site).toMatchObject({ status: 'running', failure: null })
    expect(await (await fetch(site.url)).text()).toBe('a page')
    expect(await containers()).toHaveLength(count)
  }, 240_000)

  it('fails as before when a build fails, and refuses programs beside a static site', async () => {
    const files = nodeApp('broken')
    const broken = await deployed('broken', { ...files, 'build.js': 'console.log("no such thing"); process.exit(3)' })
    expect(broken).toMatchObject({ status: 'failed', failure: { stage: 'build', code: 'build_failed' } })
    expect(broken.failure?.message).toContain('no such thing')
    const beside = { 'index.html': '', 'fairlead.json': '{"processes": {"worker": {"command": ["sleep", "60"]}}}' }
    expect((await deployed('beside', beside)).failure).toMatchObject({ stage: 'build', code: 'no_process' })
    const holes = `require('node:fs').truncateSync('server.js', 3e8)`
    const large = await deployed('large', { ...files, 'build.js': `${files['build.js']}\n${holes}` })
    expect(large.failure).toMatchObject({ stage: 'build', code: 'too_large' })
  }, 240_000)

  it('leaves only the base of deleted apps in the engine', async () => {
    for (const { id } of (await given.client.apps.list({ params: { project_id: given.projectId } })).apps) {
      await given.client.apps.delete({ params: { project_id: given.projectId, id } })
    }
    const left = async () => [
      (await containers()).length,
      (await names()).filter((name) => name.startsWith('fairlead/')),
    ]
    await expect.poll(left, { timeout: 60_000 }).toEqual([0, []])
    expect((await names()).filter((name) => name.startsWith('fairlead-base/'))).toHaveLength(3)
  }, 120_000)
})
