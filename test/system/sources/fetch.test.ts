import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { gitServer } from '../../harness/git-server.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let projectId: string
beforeAll(async () => {
  server = await testServer()
  projectId = (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

type Body = Parameters<typeof deployAndSettle>[2]
const deploy = (body: Body) => deployAndSettle(server.client, projectId, body)
const answerOf = async (url: string) => (await fetch(url)).text()

describe('a deployment of a commit', () => {
  it('fetches that commit, at the tip of a branch or not', async () => {
    await using source = await repository({})
    const old = await source.commit(nodeApp('old'))
    const tip = await source.commit(nodeApp('tip'))
    await using remote = await gitServer(source)
    const first = await deploy({ name: 'commit', git_url: remote.url, commit: old })
    expect(first).toMatchObject({ status: 'running', commit: old, branch: null })
    expect(await answerOf(first.url)).toBe('old')
    const second = await deploy({ name: 'commit', git_url: remote.url, commit: tip.toUpperCase(), branch: 'main' })
    expect(second).toMatchObject({ status: 'running', commit: tip, branch: 'main' })
    expect(await answerOf(second.url)).toBe('tip')
  })

  it('fails and names the commit when the repository does not have it', async () => {
    await using source = await repository(nodeApp('x'))
    const { failure } = await deploy({ name: 'unknown', git_url: source.url, commit: 'ab'.repeat(20) })
    expect(failure).toMatchObject({ stage: 'fetch', code: 'unknown_commit' })
  })

  it.each([['HEAD'], ['--upload-pack=x'], ['abc1234'], [`${'a'.repeat(40)}\n`], ['g'.repeat(40)]])(
    'is refused for %j',
    async (commit) => {
      await expect(deploy({ name: 'a', git_url: 'https://example.com/a.git', commit })).rejects.toMatchObject({
        code: 'invalid_request',
        details: { field: 'commit' },
      })
    },
  )
})

describe('the cache of a repository', () => {
  it('makes a fetch transfer only new objects, and serves no commit that the remote has lost', async () => {
    await using source = await repository({ ...nodeApp('one'), 'large.bin': randomBytes(300_000).toString('base64') })
    await using remote = await gitServer(source)
    await deploy({ name: 'cached', git_url: remote.url })
    const first = remote.sent()
    expect(first).toBeGreaterThan(250_000)
    const second = await source.commit(nodeApp('two'))
    expect(await answerOf((await deploy({ name: 'cached', git_url: remote.url })).url)).toBe('two')
    expect(remote.sent() - first).toBeLessThan(20_000)

    await source.git('reset', '--quiet', '--hard', 'HEAD~1')
    await source.git('reflog', 'expire', '--expire=now', '--all')
    await source.git('gc', '--quiet', '--prune=now')
    const gone = await deploy({ name: 'cached', git_url: remote.url, commit: second })
    expect(gone.failure).toMatchObject({ stage: 'fetch', code: 'unknown_commit' })
    expect(await answerOf((await deploy({ name: 'cached', git_url: remote.url })).url)).toBe('one')
  })

  it('is rebuilt when a killed server has left it damaged', async () => {
    await using source = await repository(nodeApp('orderly'))
    await deploy({ name: 'disorder', git_url: source.url })
    const caches = join(server.dataDirectory, 'git', 'caches', projectId)
    for (const name of await readdir(caches)) {
      for (const lock of ['shallow.lock', 'config.lock']) await writeFile(join(caches, name, lock), '')
      await mkdir(join(caches, name, 'refs', 'fairlead'), { recursive: true })
      await writeFile(join(caches, name, 'refs', 'fairlead', 'last'), 'half a')
    }
    await source.commit(nodeApp('again'))
    const made = await deploy({ name: 'disorder', git_url: source.url })
    expect(made.failure).toBeNull()
    expect(await answerOf(made.url)).toBe('again')
  })
})

describe('submodules', () => {
  /** Adds a submodule as its file and its entry: `git submodule add` would fetch from the address. */
  const addSubmodule = async (parent: Repository, path: string, url: string, commit: string) => {
    const listed = await readFile(join(parent.path, '.gitmodules'), 'utf8').catch(() => '')
    await writeFile(
      join(parent.path, '.gitmodules'),
      `${listed}[submodule "${path}"]\n\tpath = ${path}\n\turl = ${url}\n`,
    )
    await parent.git('add', '.gitmodules')
    await parent.git('update-index', '--add', '--cacheinfo', `160000,${commit},${path}`)
    await parent.git('commit', '--quiet', '--message', 'submodule')
  }
  const app = {
    'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
    'server.js': `const { readFileSync } = require('node:fs')
const text = ['lib/a.txt', 'lib/deep/b.txt'].map((path) => readFileSync(path, 'utf8')).join(' ')
require('node:http').createServer((request, response) => response.end(text)).listen(process.env.PORT)`,
  }

  it('are fetched at their commits, nested ones too, from addresses that may be relative', async () => {
    await using deep = await repository({ 'b.txt': 'deep' })
    await using library = await repository({ 'a.txt': 'library' })
    await addSubmodule(library, 'deep', deep.url, await deep.git('rev-parse', 'HEAD'))
    const pinned = await library.git('rev-parse', 'HEAD')
    await library.commit({ 'a.txt': 'newer' })
    await using source = await repository(app)
    await addSubmodule(source, 'lib', `../${library.path.split('/').at(-1)}`, pinned)
    const made = await deploy({ name: 'modules', git_url: source.url })
    expect(made.failure).toBeNull()
    expect(await answerOf(made.url)).toBe('library deep')
  })

  it.each([
    ['a helper of git', 'ext::sh -c touch% /tmp/x', 'submodule_refused'],
    ['an option', '--upload-pack=touch /tmp/x', 'submodule_refused'],
    ['credentials', 'https://user:password@example.com/a.git', 'submodule_refused'],
    ['a missing repository', 'file:///nowhere/at/all', 'submodule_refused'],
  ])('fail the deployment when their address is %s', async (_, url, code) => {
    await using source = await repository(app)
    await addSubmodule(source, 'lib', url, 'ab'.repeat(20))
    const { failure } = await deploy({ name: 'tricks', git_url: source.url })
    expect(failure).toMatchObject({ stage: 'fetch', code })
  })

  it('that cannot be fetched are named, with their address and the missing commit', async () => {
    await using library = await repository({ 'a.txt': 'library' })
    await using source = await repository(app)
    await addSubmodule(source, 'lib', library.url, 'ab'.repeat(20))
    await using parent = await repository(app)
    await addSubmodule(parent, 'app', source.url, await source.git('rev-parse', 'HEAD'))
    const { failure } = await deploy({ name: 'lacking', git_url: parent.url })
    expect(failure?.code).toBe('unknown_commit')
    expect(failure?.message).toContain(`The submodule lib cannot be fetched: ${library.url} has no commit abab`)
    expect(failure?.message).not.toContain('git_url')
  })

  it('on another host are fetched without the token', async () => {
    const seen: (string | undefined)[] = []
    const other = createServer((request, response) => {
      seen.push(request.headers.authorization)
      response.writeHead(404).end()
    }).listen(0, '127.0.0.1')
    await once(other, 'listening')
    await using source = await repository(app)
    await addSubmodule(
      source,
      'lib',
      `http://127.0.0.1:${(other.address() as AddressInfo).port}/a.git`,
      'ab'.repeat(20),
    )
    await using remote = await gitServer(source, { token: 'the-token' })
    const { failure } = await deploy({ name: 'other', git_url: remote.url, git_token: 'the-token' })
    expect(failure?.message).toMatch(/^The submodule lib cannot be fetched: .*Check its address in \.gitmodules/)
    expect(failure).toMatchObject({ stage: 'fetch', code: 'repository_refused' })
    expect(seen.length).toBeGreaterThan(0)
    expect(seen.every((authorization) => authorization === undefined)).toBe(true)
    other.close()
  })
})

it('git does not follow a redirect of a server', async () => {
  await using source = await repository(nodeApp('elsewhere'))
  await using remote = await gitServer(source)
  const origin = new URL(remote.url).origin
  const redirecting = createServer((request, response) => {
    response.writeHead(302, { location: `${origin}${request.url}` }).end()
  }).listen(0, '127.0.0.1')
  await once(redirecting, 'listening')
  const { port } = redirecting.address() as AddressInfo
  const { failure } = await deploy({
    name: 'redirected',
    git_url: `http://127.0.0.1:${port}${new URL(remote.url).pathname}`,
  })
  expect(failure).toMatchObject({ stage: 'fetch', code: 'repository_unreachable' })
  expect(failure?.message).toContain('redirects elsewhere')
  expect(remote.requests).toEqual([])
  redirecting.close()
})
