import { once } from 'node:events'
import { chmod, cp, mkdir, stat, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openSshAccess } from '../../../server/src/sources/ssh.ts'
import { createTreeReader } from '../../../server/src/sources/tree-limits.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { ownServer, type TestServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let listed: { readonly path: string } & AsyncDisposable
let server: TestServer
beforeAll(async () => {
  listed = await temporaryDirectory()
  server = await ownServer({ FAIRLEAD_FILE_SOURCES: `/nowhere, ${listed.path}` })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await listed[Symbol.asyncDispose]()
})

async function deploy(client: TestServer['client'], url: string) {
  const { id } = await client.projects.create({ body: { name: 'p' } })
  return deployAndSettle(client, id, { name: 'local', git_url: url })
}

describe('a repository of this machine', () => {
  it('is deployed for the operator, even below folders that are closed to others', async () => {
    await using folder = await temporaryDirectory()
    await using source = await repository(nodeApp('closed'))
    const path = join(folder.path, 'closed', 'x.git')
    await mkdir(join(folder.path, 'closed'))
    await cp(join(source.path, '.git'), path, { recursive: true })
    await chmod(folder.path, 0o700)
    await chmod(source.path, 0o700)
    for (const each of [path, source.path]) {
      const made = await deploy(server.client, pathToFileURL(each).href)
      expect(made.failure).toBeNull()
      expect(await (await fetch(made.url)).text()).toBe('closed')
    }
  })

  it('below a listed folder is deployed for every account, and others are refused alike', async () => {
    const account = await server.accounts.create({ name: 'another', plan: 'free' })
    const client = server.clientFor(await server.key({ accountId: account.id }))
    await using source = await repository(nodeApp('listed'))
    const path = join(listed.path, 'x.git')
    await cp(join(source.path, '.git'), path, { recursive: true })
    expect((await deploy(client, pathToFileURL(path).href)).failure).toBeNull()
    for (const url of [source.url, 'file:///nowhere/x.git', pathToFileURL(join(listed.path, 'none')).href]) {
      await expect(deploy(client, url)).rejects.toMatchObject({
        code: 'invalid_request',
        details: { field: 'git_url', errors: [{ message: 'leads to no git repository' }] },
      })
    }
  })

  it.runIf(process.getuid?.() === 0)('with unreadable files is refused with advice', async () => {
    await using source = await repository(nodeApp('closed'))
    const object = `objects/${(await source.git('rev-parse', 'HEAD')).slice(0, 2)}`
    for (const closed of ['', object, 'HEAD'].map((name) => join(source.path, '.git', name))) {
      const { mode } = await stat(closed)
      await chmod(closed, 0o700)
      const { failure } = await deploy(server.client, source.url)
      expect(failure?.message, closed).toContain('chmod -R go+rX')
      await chmod(closed, mode)
    }
  })

  it('that borrows objects is refused with advice', async () => {
    await using source = await repository(nodeApp('borrows'))
    await writeFile(join(source.path, '.git', 'objects', 'info', 'alternates'), '/somewhere/objects\n')
    await expect(deploy(server.client, source.url)).rejects.toMatchObject({
      details: { errors: [{ message: expect.stringContaining('git repack -ad') }] },
    })
  })
})

describe('the listing of a commit', () => {
  const line = (path: string, size: number | '-' = 1, mode = '100644') =>
    Buffer.from(
      `${mode} ${mode === '160000' ? 'commit' : 'blob'} ${'a'.repeat(40)} ${String(size).padStart(7)}\t${path}\0`,
    )

  it('returns the submodules, however it is split into pieces', () => {
    const reader = createTreeReader(1_000_000)
    const all = Buffer.concat([line('.gitmodules'), line('lib/a', '-', '160000')])
    for (const byte of all) reader.read(Buffer.from([byte]))
    expect(reader.summary()).toEqual({ submodules: new Map([['lib/a', 'a'.repeat(40)]]), hasGitmodules: true })
  })

  it.each([
    ['more bytes', () => line('a', 2_000_000_000)],
    ['more files', () => Buffer.concat(Array.from({ length: 200_001 }, (_, at) => line(String(at), 0)))],
    ['deeper folders', () => line('a/'.repeat(100))],
    ['longer paths', () => line('a'.repeat(2_001))],
    ['an endless path', () => Buffer.alloc(10_000, 'a')],
  ])('with %s than allowed is refused', (_, listing) => {
    const reader = createTreeReader(1_000_000_000)
    expect(() => reader.read(listing())).toThrow(expect.objectContaining({ code: 'too_large' }))
  })
})

it('the agent of the operator is reached through a socket that goes with git', async () => {
  await using folder = await temporaryDirectory()
  const agent = createServer((socket) => socket.pipe(socket)).listen(join(folder.path, 'agent'))
  await once(agent, 'listening')
  const given = { agent: join(folder.path, 'agent'), hostKey: null }
  const access = await openSshAccess(given, { user: null })
  const client = connect(access.agent ?? '')
  client.write('a question')
  expect(String((await once(client, 'data'))[0])).toBe('a question')
  client.destroy()
  await access.close()
  const late = connect(access.agent ?? '')
  await expect(once(late, 'connect')).rejects.toMatchObject({ code: 'ENOENT' })
  agent.close()
})
