import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { userOf } from '../../server/src/platform/processes.ts'
import { deployAndSettle, processesOf } from '../harness/deployments.ts'
import { nodeApp, type Repository, repository } from '../harness/repository.ts'
import { type TestServer, testServer } from '../harness/server.ts'
import { temporaryDirectory } from '../harness/temporary.ts'

/*
 * Requests and commits of hostile users. In every case, nothing is executed as the server, no secret is read,
 * nothing is left running, and the server goes on.
 */

const isRoot = process.getuid?.() === 0
const cleanup = new AsyncDisposableStack()
/** The file that a planted command would create, and a secret that must never be served. */
let trap: string
let secret: string
let server: TestServer
let project: string
let honest: Repository

beforeAll(async () => {
  const folder = cleanup.use(await temporaryDirectory())
  trap = join(folder.path, 'trap')
  // The server could write there, and no app.
  await mkdir(trap, { mode: 0o700 })
  secret = join(trap, 'secret.txt')
  await writeFile(secret, 'the-secret-of-the-server', { mode: 0o600 })
  server = cleanup.use(
    await testServer({
      FAIRLEAD_UIDS: '52000-52999',
      FAIRLEAD_SOURCE_MB: '20',
      FAIRLEAD_RELEASE_MB: '60',
      FAIRLEAD_START_TIMEOUT: '15',
    }),
  )
  project = (await server.client.projects.create({ body: { name: 'hostile' } })).id
  honest = cleanup.use(await repository(nodeApp('honest')))
})
afterAll(() => cleanup.disposeAsync())

/** Nothing was executed by the server, and it still works. */
async function expectUnharmed(): Promise<void> {
  expect(await readdir(trap)).toEqual(['secret.txt'])
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
}

const create = (body: Record<string, unknown>): Promise<Response> =>
  fetch(`${server.baseUrl}/projects/${project}/deployments`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'honest', git_url: honest.url, ...body }),
  })

const touch = (): string => join(trap, 'executed')

describe('refused at once', () => {
  const addresses = (): string[] => [
    `ext::sh -c "touch ${touch()}"`,
    `ext::touch% ${touch()}`,
    'fd::17/foo',
    'transport::https://example.com/a.git',
    `--upload-pack=touch ${touch()}`,
    `-oProxyCommand=touch ${touch()}`,
    `ssh://-oProxyCommand=touch ${touch()}/a.git`,
    `-oProxyCommand=touch@host:a.git`,
    'git@-oProxyCommand=x:a.git',
    'file://relative/../../etc',
    'file:///etc/passwd',
    'file:///proc/self/environ',
    'file:///',
    'file:///nonexistent/repository',
    '/etc',
    '../../etc',
    './.git',
    'ftp://example.com/a.git',
    'https://user:password@example.com/a.git',
    'https://example.com/a.git\n--upload-pack=x',
    'https://example.com/a\0.git',
    'https://',
    'http://[::1',
    '',
    ' ',
    'x'.repeat(100_000),
  ]
  const length = 26
  test.each(Array.from({ length }, (_, n) => n))('git_url %i', async (n) => {
    const address = addresses()[n]
    expect(addresses()).toHaveLength(length)
    const response = await create({ git_url: address })
    expect({ address, status: response.status }).toEqual({ address, status: 400 })
    await expectUnharmed()
  })

  test.each([
    ['branch', '--upload-pack=touch x'],
    ['branch', '-b'],
    ['branch', '../../etc/passwd'],
    ['branch', 'main..other'],
    ['branch', 'main:refs/heads/evil'],
    ['branch', 'a b'],
    ['branch', 'main\n'],
    ['branch', 'main\0'],
    ['branch', 'main^{/x}'],
    ['branch', 'main~1'],
    ['branch', '@{-1}'],
    ['branch', '*'],
    ['branch', 'refs.lock'],
    ['branch', ''],
    ['commit', '--help'],
    ['commit', 'HEAD'],
    ['commit', 'main'],
    ['commit', '0123'],
    ['commit', `${'0'.repeat(40)}\n`],
    ['commit', 'g'.repeat(40)],
    ['commit', '$(touch x)'.padEnd(40, '0')],
    ['name', ''],
    ['name', '   '],
    ['name', 'a\0b'],
    ['name', 'a\nb'],
    ['name', '\u001b[2J'],
    ['name', 'x'.repeat(101)],
    ['name', '\ud800'],
    ['name', { toString: 'x' }],
    ['env_vars', { 'A=B': 'x' }],
    ['env_vars', { '': 'x' }],
    ['env_vars', { 'A B': 'x' }],
    ['env_vars', { '1A': 'x' }],
    ['env_vars', { 'A\0': 'x' }],
    ['env_vars', { A: 'x\0y' }],
    ['env_vars', { A: 1 }],
    ['env_vars', ['A=B']],
    ['env_vars', { A: 'x'.repeat(32_001) }],
    ['env_vars', Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`A${n}`, 'x']))],
  ])('%s %j', async (field, value) => {
    const response = await create({ [field]: value })
    expect(response.status).toBe(400)
    await expectUnharmed()
  })
})

describe('accepted, and harmless', () => {
  test.each([
    '$(touch x)',
    '`touch x`',
    '; rm -rf /',
    '../../../../etc',
    '--help',
    '.',
    '..',
    '<script>alert(1)</script>',
    "'; drop table deployments; --",
    '$HOME',
    '\u202egnp.exe',
  ])('the name %j', async (name) => {
    const own = await server.client.projects.create({ body: { name: 'names' } })
    const made = await deployAndSettle(server.client, own.id, { name, git_url: honest.url })
    expect({ name, failure: made.failure }).toEqual({ name, failure: null })
    expect(await (await fetch(made.url)).text()).toBe('honest')
    await server.client.deployments.stop({ params: { project_id: own.id, id: made.id } })
    await expectUnharmed()
  })

  test.each([
    { NODE_OPTIONS: '--require /tmp/nonexistent-evil.js' },
    { LD_PRELOAD: '/tmp/nonexistent-evil.so' },
    { BASH_ENV: '/etc/passwd', ENV: '/etc/passwd' },
    { npm_config_prefix: '/', npm_config_script_shell: '/bin/false' },
    { GIT_SSH_COMMAND: 'touch /tmp/evil', GIT_EXTERNAL_DIFF: 'x' },
    { FAIRLEAD_DATA_DIR: '/', DATABASE_URL: 'postgres://evil' },
  ] as Record<string, string>[])('the variables %j', async (variables) => {
    const { id, status } = await deployAndSettle(server.client, project, {
      name: 'variables',
      git_url: honest.url,
      env_vars: variables,
    })
    expect(['running', 'failed']).toContain(status)
    if (status === 'running') await server.client.deployments.stop({ params: { project_id: project, id } })
    await expectUnharmed()
  })
})

/** Commits what `make` writes and deploys it. */
async function deployRepository(make: (source: Repository) => Promise<unknown>) {
  await using source = await repository({})
  await make(source)
  await source.commit({})
  return await deployAndSettle(server.client, project, { name: 'repository', git_url: source.url })
}

const scripts = (build: string) => ({
  'package.json': JSON.stringify({ scripts: { build, start: 'node server.js' } }),
  'server.js': nodeApp('up')['server.js'] ?? '',
})

describe('repositories', () => {
  /** None of these paths, asked of what runs, gives the secret or a file of the system. */
  const paths = ['/', '/secret', '/folder/secret.txt', '/page.html', '/passwd', '/..%2f..%2fsecret.txt', '/.git/config']

  const contents: [string, (source: Repository) => Promise<unknown>][] = [
    ['a link to a secret', ({ path }) => link(path, 'secret', secret)],
    ['a link to a folder outside', ({ path }) => link(path, 'folder', trap)],
    ['a link that climbs out', ({ path }) => link(path, 'passwd', '../../../../../../../../../../etc/passwd')],
    ['a page that is a link', ({ path }) => link(path, 'page.html', '/etc/passwd')],
    ['an index that is a link', ({ path }) => symlink(secret, join(path, 'index.html'))],
    ['a manifest that is a link', ({ path }) => link(path, 'package.json', secret)],
    ['a Procfile that is a link', ({ path }) => link(path, 'Procfile', secret)],
    ['a lock file that is a link', ({ path }) => link(path, 'package-lock.json', secret)],
    ['a link in a ring', ({ path }) => link(path, 'ring', 'ring')],
    ['a manifest that is a folder', (source) => source.commit({ 'package.json/x': '' })],
    ['a manifest without end', (source) => source.commit({ 'package.json': '['.repeat(100_000) })],
    ['a manifest of nothing', (source) => source.commit({ 'package.json': 'null' })],
    [
      'a manifest with a prototype',
      (source) => source.commit({ 'package.json': '{"__proto__":{"scripts":{"start":"x"}}}' }),
    ],
    ['a manifest with scripts of the wrong kind', (source) => source.commit({ 'package.json': '{"scripts":[1,{}]}' })],
    ['a Procfile of control characters', (source) => source.commit({ Procfile: 'web: \u0000\u001b[2J' })],
    ['a huge file', (source) => source.commit({ 'index.html': 'x', huge: 'x'.repeat(25_000_000) })],
    ['a file that is small only in git', (source) => source.commit({ 'index.html': '\n'.repeat(24_000_000) })],
    [
      'hooks',
      async (source) => {
        for (const hook of [
          'post-checkout',
          'post-merge',
          'pre-commit',
          'reference-transaction',
          'post-index-change',
        ]) {
          const file = join(source.path, '.git', 'hooks', hook)
          await writeFile(file, `#!/bin/sh\n[ -e ${secret} ] && touch ${touch()}-$FAIRLEAD_NONE || exit 0\n`)
          if (hook === 'post-checkout') await chmod(file, 0o755)
        }
        await source.commit({ 'index.html': 'hooks' })
      },
    ],
    [
      'filters in attributes',
      (source) =>
        source.commit({
          '.gitattributes': '* filter=evil diff=evil merge=evil\n',
          '.gitconfig': `[filter "evil"]\n\tsmudge = touch ${touch()}\n`,
          'index.html': 'filters',
        }),
    ],
    [
      'a file monitor in the settings',
      async (source) => {
        await source.commit({ 'index.html': 'monitor' })
        await source.git('config', 'core.sshCommand', `touch ${touch()}`)
        await source.git('config', 'uploadpack.packObjectsHook', `touch ${touch()}`)
      },
    ],
    ['a submodule with a command for an address', (source) => submodule(source, `ext::touch ${touch()}`)],
    ['a submodule with an option for an address', (source) => submodule(source, `--upload-pack=touch ${touch()}`)],
    ['a submodule at a secret', (source) => submodule(source, `file://${trap}`)],
    ['a submodule outside', (source) => submodule(source, './x', '../outside')],
    ['a submodule in .git', (source) => submodule(source, './x', '.git/hooks')],
    [
      'a submodule over a link',
      async (source) => {
        await symlink(trap, join(source.path, 'sub'))
        await submodule(source, './x', 'sub/inner')
      },
    ],
    [
      'an update command of a submodule',
      (source) =>
        source.commit({
          '.gitmodules': `[submodule "a"]\n\tpath = a\n\turl = ./a\n\tupdate = !touch ${touch()}\n`,
          'index.html': 'update',
        }),
    ],
    ['file names with control characters', (source) => source.commit({ 'a\n\u001b[2Jb': 'x', 'index.html': 'names' })],
    [
      'file names like options',
      (source) => source.commit({ '--reference=x': 'x', '-rf': 'x', 'index.html': 'options' }),
    ],
    ['a folder forty deep', (source) => source.commit({ [`${'d/'.repeat(40)}x`]: 'x', 'index.html': 'deep' })],
  ]

  test.each(contents)('%s', async (_, make) => {
    const made = await deployRepository(make)
    expect(['running', 'failed']).toContain(made.status)
    expect(made.failure?.code).not.toBe('server_error')
    expect(JSON.stringify(made)).not.toContain('the-secret-of-the-server')
    if (made.status === 'running') {
      for (const path of paths) {
        const text = await (await fetch(new URL(path, made.url))).text()
        expect(text).not.toMatch(/the-secret-of-the-server|root:x:0/)
      }
      await server.client.deployments.stop({ params: { project_id: project, id: made.id } })
    }
    await expect.poll(() => processesOf(made.id)).toEqual([])
    await expectUnharmed()
  })
})

describe('what runs', () => {
  const daemon = (options: string) =>
    `node -e "require('child_process').spawn(process.execPath,['-e','setInterval(()=>{},1e3)'],${options}).unref()"`

  test.each([
    ['a build that leaves a daemon', scripts(daemon("{detached:true,stdio:'ignore'}"))],
    ['a build that leaves a daemon without environment', scripts(daemon("{detached:true,stdio:'ignore',env:{}}"))],
    ['a build in the background', scripts('sleep 600 & exit 0')],
    ['a build that ends itself', scripts('node -e "process.kill(process.ppid, 9)"')],
    ['a build that stops itself', scripts('node -e "process.kill(-1, 15)"')],
    ['a build that takes its rights away', scripts('mkdir closed && touch closed/file && chmod 0 closed')],
    ['a build that fills its folder with links', scripts(`ln -s / root && ln -s ${'/etc/passwd'} passwd`)],
    [
      'an install script',
      {
        ...scripts('true'),
        'package.json': JSON.stringify({ scripts: { preinstall: 'id', start: 'node server.js' } }),
      },
    ],
    ['an app that ends at once', { ...scripts('true'), 'server.js': 'process.exit(0)' }],
    [
      'an app that ignores SIGTERM',
      { ...scripts('true'), 'server.js': `process.on('SIGTERM', () => {})\n${nodeApp('stubborn')['server.js']}` },
    ],
    [
      'an app that forks twice and hides',
      {
        ...scripts('true'),
        'server.js': `require('child_process').spawn(process.execPath, ['-e', "require('child_process').spawn('/bin/sleep', ['600'], { detached: true, stdio: 'ignore', env: {} }).unref()"], { detached: true, stdio: 'ignore', env: {} }).unref()\n${nodeApp('forks')['server.js']}`,
      },
    ],
    [
      'an app that signals everybody',
      { ...scripts('true'), 'server.js': `try { process.kill(-1, 9) } catch {}\n${nodeApp('kills')['server.js']}` },
    ],
    [
      'an app that hides its name',
      { ...scripts('true'), 'server.js': `process.title = 'x'.repeat(4000)\n${nodeApp('title')['server.js']}` },
    ],
  ] as [string, Record<string, string>][])('%s', async (_, files) => {
    // Without root all of these run as the user of the tests, who must not be signalled.
    if (!isRoot && Object.values(files).some((text) => text.includes('kill(-1'))) return
    const made = await deployRepository((source) => source.commit(files))
    expect(['running', 'failed']).toContain(made.status)
    expect(made.failure?.code).not.toBe('server_error')
    if (made.status === 'running')
      await server.client.deployments.stop({ params: { project_id: project, id: made.id } })
    await expect.poll(() => processesOf(made.id)).toEqual([])
    if (isRoot) await expect.poll(() => processesOfApps()).toEqual([])
    await expectUnharmed()
  })
})

/** The processes of this server's users of apps, whatever they say of themselves: all were stopped. */
async function processesOfApps(): Promise<number[]> {
  const apps = await readdir(join(server.dataDirectory, 'apps'))
  const own = new Set<number>()
  for (const app of apps) {
    const home = await stat(join(server.dataDirectory, 'apps', app, 'home')).catch(() => null)
    if (home !== null) own.add(home.uid)
  }
  return (await readdir('/proc'))
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && existsSync(`/proc/${pid}/exe`))
    .filter((pid) => own.has(userOf(pid) ?? -1))
}

async function link(path: string, name: string, target: string): Promise<void> {
  await symlink(target, join(path, name))
  if (name !== 'index.html') await writeFile(join(path, 'index.html'), 'a page')
}

/** A submodule by hand, as git itself would not make it. */
async function submodule(source: Repository, url: string, path = 'sub'): Promise<void> {
  const head = await source.commit({ 'index.html': 'a page' })
  await source.commit({ '.gitmodules': `[submodule "sub"]\n\tpath = ${path}\n\turl = ${url}\n` })
  await source.git('update-index', '--add', '--cacheinfo', `160000,${head},${path}`).catch(() => undefined)
  await source.git('commit', '--quiet', '--allow-empty', '--message', 'submodule')
}
