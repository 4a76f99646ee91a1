import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { hangingBuild } from '../../harness/deployments.ts'
import { command, fairlead } from '../../harness/process.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let server: TestServer
let home: Awaited<ReturnType<typeof temporaryDirectory>>
beforeAll(async () => {
  server = await testServer()
  home = await temporaryDirectory()
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await home[Symbol.asyncDispose]()
})

const environment = () => ({ FAIRLEAD_URL: server.url, FAIRLEAD_API_KEY: server.apiKey, HOME: home.path })
const run = (...args: string[]) => commandHere(args, environment())
const projects = async () => (await server.client.projects.list()).projects.map(({ name }) => name)

/** Answers with the value of a variable. */
const showsVariable = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `console.log('started \\x1b[31mred')
require('node:http').createServer((q, r) => r.end(String(process.env.WHO))).listen(process.env.PORT)\n`,
}

/** A site: its deployment builds and starts nothing. */
const site = (text: string) => ({ 'index.html': `<!doctype html><title>${text}</title>` })

describe('fairlead deploy', () => {
  let app: Repository
  beforeAll(async () => {
    app = await repository({})
  })
  afterAll(() => app[Symbol.asyncDispose]())

  it('explains the first step in a folder without a repository, and in a repository without a commit', async () => {
    await using folder = await temporaryDirectory()
    const none = await run('deploy', folder.path)
    expect(none).toMatchObject({ code: 1, stdout: '' })
    expect(none.stderr).toMatch(/is not a git repository[\s\S]*git init\n[\s\S]*git commit[\s\S]*fairlead deploy/)
    const empty = await run('deploy', app.path)
    expect(empty).toMatchObject({ code: 1, stdout: '' })
    expect(empty.stderr).toMatch(/has no commit yet[\s\S]*git commit/)
    expect(await projects()).toEqual([])
  })

  it('creates the project and the app, deploys the committed files, and prints only the address', async () => {
    const commit = await app.commit(showsVariable)
    await writeFile(join(app.path, 'server.js'), 'not committed')
    const { code, stdout, stderr } = await run('deploy', app.path, '--name', 'web', '--env', 'WHO=first', 'OTHER=x')
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringMatching(/web runs after \d+\.\d s/) })
    expect(stderr).toMatch(
      /^queued [\d.]+ s · fetch [\d.]+ s · plan .* · build .* · start .* · check .* · switch [\d.]+ s$/m,
    )
    expect(stderr).toContain('warning: 1 file has changes that are not committed')
    expect(await (await fetch(stdout.trim())).text()).toBe('first')
    expect(await projects()).toEqual(['web'])
    expect(stderr).toContain(commit.slice(0, 12))
  })

  it('deploys the same app the next time, which keeps its variables', async () => {
    const commit = await app.commit({ ...showsVariable, 'README.md': 'second' })
    // The command keeps its bundle on another file system, as Debian 13 does for temporary files.
    const elsewhere = { ...environment(), TMPDIR: '/dev/shm' }
    const { code, stdout } = await commandHere(['deploy', app.path, '--env', 'WHO=second', '--json'], elsewhere)
    expect(code).toBe(0)
    const made = JSON.parse(stdout)
    expect(made).toMatchObject({
      name: 'web',
      status: 'running',
      commit,
      env_var_names: ['OTHER', 'WHO'],
      git_url: null,
    })
    expect(await (await fetch(made.url)).text()).toBe('second')
    expect(await projects()).toEqual(['web'])
  })

  it('deploys an address, and prints the reason of a failure', async () => {
    await using source = await repository({ 'a.txt': 'nothing to start' })
    const { code, stdout, stderr } = await run('deploy', source.url, '--project', 'other', '--name', 'none')
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/none is failed after .* in the step plan \(\w+\):\n/)
    expect(await projects()).toEqual(['other', 'web'])
  })

  it('deploys a subfolder of a repository, and later deployments keep it', async () => {
    const below = (files: Readonly<Record<string, string>>) =>
      repository(Object.fromEntries(Object.entries(files).map(([path, text]) => [`backend/${path}`, text])))
    await using program = await below(nodeApp('below'))
    const refused = await run('deploy', program.url, '--project', 'other', '--name', 'program')
    expect(refused.stderr).toContain('Set root to backend (node): ')
    await using source = await below(site('below'))
    const deploy = (...more: string[]) => run('deploy', source.url, '--project', 'other', '--name', 'folder', ...more)
    const made = await deploy('--root', 'backend')
    expect(made).toMatchObject({ code: 0 })
    expect(await deploy()).toMatchObject({ code: 0, stdout: made.stdout })
    expect(await (await fetch(made.stdout.trim())).text()).toContain('below')
  })

  it('refuses to move the variables of an app to another source, a folder in a repository, and a wrong variable', async () => {
    const moved = await run('deploy', app.url, '--project', 'web', '--name', 'web')
    expect(moved.stderr).toContain('the app has secret variables, which stay with uploaded sources')
    await mkdir(join(app.path, 'apps'), { recursive: true })
    const inside = await run('deploy', join(app.path, 'apps'))
    expect(inside.stderr).toContain(`fairlead deploy ${app.path} --root apps`)
    const secret = await run('deploy', app.path, '--env', '=secret')
    expect(secret.stderr).toContain('NAME=value')
    expect(secret.stderr).not.toContain('secret')
    expect([moved.code, inside.code, secret.code]).toEqual([1, 1, 1])
  })

  it('leaves the deployment running after Ctrl+C, and says how to follow and cancel it', async () => {
    await using source = await repository(hangingBuild)
    const env = { PATH: process.env['PATH'], ...environment() }
    const child = spawn(process.execPath, [command, 'deploy', source.path, '--project', 'web', '--name', 'slow'], {
      env,
    })
    const output = text(child.stderr)
    await new Promise<void>((seen) => child.stderr.on('data', (chunk) => String(chunk).includes('building') && seen()))
    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([130, null])
    const [, project_id = '', id = ''] = /deployments\.cancel --project-id (\S+) --id (\S+)/.exec(await output) ?? []
    const params = { project_id, id }
    expect((await server.client.deployments.get({ params })).status).toBe('building')
    await server.client.deployments.cancel({ params })
  })

  it('logs prints the log without control characters, and follows it to its end', async () => {
    const { stdout } = await run('logs', 'web')
    expect(stdout).toContain('started red\n')
    const all = await run('logs', '--all', 'web')
    expect(all.stdout.match(/^--- dep_\w+ of .* ---$/gm)?.length).toBeGreaterThan(1)
    expect(all.stdout).toContain('started red\n')
    const cancelled = await run('logs', '--follow', 'slow', '--project', 'web')
    expect(cancelled).toMatchObject({ code: 0, stdout: expect.stringContaining('building') })
    expect(await run('logs', 'missing')).toMatchObject({ code: 1, stderr: 'fairlead: There is no app missing.\n' })
  })

  it('open prints the address', async () => {
    const { stdout } = await run('open', 'web')
    expect(await (await fetch(stdout.trim())).text()).toBe('second')
  })
})

describe('finds a server', () => {
  it('on this machine by its data directory, and stores the key readable only for the user', async () => {
    await using user = await temporaryDirectory()
    await using app = await repository(site('local'))
    const given = { HOME: user.path, XDG_CONFIG_HOME: '', DATABASE_URL: server.database.url }
    const deployed = await commandHere(
      ['deploy', app.path, '--name', 'local', '--data-dir', server.dataDirectory],
      given,
    )
    expect(deployed).toMatchObject({ code: 0, stderr: expect.stringContaining(`using the server at ${server.url}`) })
    const file = join(user.path, '.config', 'fairlead', 'config.json')
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({ url: server.url })
    const later = await commandHere(['open', 'local'], { HOME: user.path, XDG_CONFIG_HOME: '' })
    expect(later).toMatchObject({ code: 0, stdout: deployed.stdout })
    await chmod(file, 0o644)
    const open = await commandHere(['open', 'local'], { HOME: user.path, XDG_CONFIG_HOME: '' })
    expect(open).toMatchObject({ code: 1, stderr: expect.stringContaining('chmod 600') })
  })

  it('in four concurrent commands, of which one creates the key', async () => {
    await using user = await temporaryDirectory()
    const env = { XDG_CONFIG_HOME: user.path, DATABASE_URL: server.database.url }
    const open = () => fairlead(['open', 'unknown', '--data-dir', server.dataDirectory], env)
    const keys = async () => (await server.database.query('select id from api_keys')).length
    const before = await keys()
    const ended = await Promise.all([open(), open(), open(), open()])
    expect(ended.map(({ stderr }) => stderr.includes('There is no app unknown.'))).toEqual([true, true, true, true])
    expect(ended.filter(({ stderr }) => stderr.includes('with a new key'))).toHaveLength(1)
    expect((await keys()) - before).toBe(1)
  })

  it('by a login with a key from standard input, which is tried first', async () => {
    await using user = await temporaryDirectory()
    const given = { XDG_CONFIG_HOME: user.path }
    const wrong = await commandHere(['login', server.url], given, { input: `fl_${'a'.repeat(36)}\n` })
    expect(wrong).toMatchObject({ code: 1, stdout: '' })
    const right = await commandHere(['login', server.url], given, { input: `${server.apiKey}\n` })
    expect(right).toMatchObject({ code: 0, stderr: '' })
    expect(right.stdout).not.toContain(server.apiKey)
    const using = `fairlead: using the server at ${server.url} (fairlead login)\n`
    expect(await commandHere(['api', 'account.get'], given)).toMatchObject({ code: 0, stderr: using })
  })

  it('or otherwise explains how to name one', async () => {
    await using folder = await temporaryDirectory()
    const none = await commandHere(['open', 'x', '--data-dir', folder.path])
    expect(none.stderr).toContain(`no server that is ready runs with the data directory ${folder.path}. Start it`)
  })

  it('by a login whose key is refused, which the message names with its file, while variables take precedence', async () => {
    await using user = await temporaryDirectory()
    const given = { XDG_CONFIG_HOME: user.path }
    const file = join(user.path, 'fairlead', 'config.json')
    await mkdir(dirname(file))
    await writeFile(file, JSON.stringify({ url: server.url, api_key: `fl_${'a'.repeat(36)}` }), { mode: 0o600 })
    const refused = await commandHere(['api', 'account.get'], given)
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining(`is in ${file}: log in again`) })
    const named = { ...given, FAIRLEAD_URL: server.url, FAIRLEAD_API_KEY: server.apiKey }
    expect(await commandHere(['api', 'account.get'], named)).toMatchObject({ code: 0, stderr: '' })
  })
})
