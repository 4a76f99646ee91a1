import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { gitServer } from '../../harness/git-server.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { type OwnServer, ownServer } from '../../harness/server.ts'

let server: OwnServer
let projectId: string
beforeAll(async () => {
  server = await ownServer()
  projectId = (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

const deploy = (body: Parameters<typeof deployAndSettle>[2]) => deployAndSettle(server.client, projectId, body)

describe('git_token', () => {
  const token = `token-${randomBytes(12).toString('hex')}`

  it('opens a private repository, and is deleted when the fetch is over', async () => {
    await using source = await repository(nodeApp('private'))
    await using remote = await gitServer(source, { token })
    const refused = await deploy({ name: 'private', git_url: remote.url })
    expect(refused.failure).toMatchObject({ stage: 'fetch', code: 'repository_refused' })
    const opened = await deploy({ name: 'private', git_url: remote.url, git_token: token })
    expect(opened).toMatchObject({ status: 'running', git_url: remote.url })
    expect(JSON.stringify(opened)).not.toContain(token)
    // The cache has the commit now, but requires the token to read it.
    const again = await deploy({ name: 'private', git_url: remote.url })
    expect(again.failure).toMatchObject({ code: 'repository_refused' })
    const byCommit = await deploy({ name: 'private', git_url: remote.url, commit: String(opened.commit) })
    expect(byCommit.failure).toMatchObject({ code: 'repository_refused' })

    const rows = await server.database.query('select 1 from deployments where git_token is not null')
    expect(rows).toEqual([])
    expect(JSON.stringify(server.log)).not.toContain(token)
    expect(await filesWith(server.dataDirectory, token)).toEqual([])
  })

  it('may carry a user name', async () => {
    await using source = await repository(nodeApp('named'))
    await using remote = await gitServer(source, { user: 'somebody', token })
    const made = await deploy({ name: 'named', git_url: remote.url, git_token: `somebody:${token}` })
    expect(made.status).toBe('running')
  })

  it('appears in no process list, environment or file while git runs', async () => {
    let authorization: string | undefined
    const slow = createServer((request) => {
      authorization = request.headers.authorization
    }).listen(0, '127.0.0.1')
    await once(slow, 'listening')
    const asked = once(slow, 'request')
    const made = await server.client.deployments.create({
      params: { project_id: projectId },
      body: {
        name: 'slow',
        git_url: `http://127.0.0.1:${(slow.address() as AddressInfo).port}/a.git`,
        git_token: token,
      },
    })
    await asked
    expect(authorization).toBe(`Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`)
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
    const secrets = [token, Buffer.from(`x-access-token:${token}`).toString('base64')]
    for (const pid of pids) {
      for (const file of ['cmdline', 'environ']) {
        const text = await readFile(`/proc/${pid}/${file}`, 'latin1').catch(() => '')
        for (const secret of secrets) expect(text.includes(secret), `${pid} ${file}`).toBe(false)
      }
    }
    for (const secret of secrets) expect(await filesWith(server.dataDirectory, secret)).toEqual([])
    const [row] = await server.database.query<{ git_token: Buffer }>(
      'select git_token from deployments where id = $1',
      [made.id],
    )
    expect(row?.git_token.includes(token)).toBe(false)
    await server.client.deployments.cancel({ params: { project_id: projectId, id: made.id } })
    expect(await server.database.query('select 1 from deployments where git_token is not null')).toEqual([])
    slow.closeAllConnections()
    slow.close()
  })

  it.each([
    ['an ssh address', 'git@example.com:a/b.git', 'token'],
    ['a local repository', 'file:///tmp', 'token'],
    ['a line break', 'https://example.com/a.git', 'a\nb'],
    ['nothing', 'https://example.com/a.git', ''],
  ])('is refused with %s', async (_, git_url, git_token) => {
    await expect(deploy({ name: 'a', git_url, git_token })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { errors: expect.arrayContaining([expect.objectContaining({ field: 'git_token' })]) },
    })
  })
})

/** Returns the files below a folder that contain this text. */
async function filesWith(folder: string, text: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const found: string[] = []
  for (const entry of entries) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const content = await readFile(path, 'latin1').catch(() => '')
    if (content.includes(text)) found.push(path)
  }
  return found
}
