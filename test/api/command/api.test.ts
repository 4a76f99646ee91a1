import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let server: TestServer
let directory: Awaited<ReturnType<typeof temporaryDirectory>>
beforeAll(async () => {
  server = await testServer()
  directory = await temporaryDirectory()
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await directory[Symbol.asyncDispose]()
})

const environment = () => ({ FAIRLEAD_URL: server.url, FAIRLEAD_API_KEY: server.apiKey })
const api = (args: readonly string[], input = '') => commandHere(['api', ...args], environment(), { input })
const newProject = async () => (await server.client.projects.create({ body: { name: 'p' } })).id

describe('fairlead api', () => {
  it('prints only the server’s response as JSON', async () => {
    const made = await api(['projects.create', '--data', '{"name":"From the command line"}'])
    expect(made).toMatchObject({ code: 0, stderr: '' })
    const project = JSON.parse(made.stdout)
    const params = { project_id: project.id }
    const read = await api(['projects.get', '--project-id', project.id])
    expect(JSON.parse(read.stdout)).toEqual(await server.client.projects.get({ params }))
    expect(await api(['projects.delete', '--project-id', project.id])).toEqual({ code: 0, stdout: '', stderr: '' })
    await expect(server.client.projects.get({ params })).rejects.toMatchObject({ code: 'not_found' })
  })

  it('reads a body from a file and from standard input', async () => {
    const project_id = await newProject()
    const file = join(directory.path, 'body.json')
    await writeFile(file, JSON.stringify({ name: 'from a file', git_url: 'https://127.0.0.1:1/a.git' }))
    const first = await api(['deployments.create', '--project-id', project_id, '--data', `@${file}`])
    expect(JSON.parse(first.stdout)).toMatchObject({ name: 'from a file', status: 'building' })
    const body = JSON.stringify({ name: 'from a pipe', git_url: 'https://127.0.0.1:1/a.git' })
    const second = await api(['deployments.create', '--project-id', project_id, '--data', '-'], body)
    expect(JSON.parse(second.stdout)).toMatchObject({ name: 'from a pipe', status: 'building' })
  })

  it('prints a log as text', async () => {
    const project_id = await newProject()
    await using source = await repository({ 'index.html': 'hello' })
    const { id } = await deployAndSettle(server.client, project_id, { name: 'web', git_url: source.url })
    const params = { project_id, id }
    const read = async (query = {}) => (await server.client.deployments.logs({ params, query })).text()
    await expect.poll(() => read()).not.toBe('')
    const log = await read()
    const given = ['--project-id', project_id, '--id', id]
    expect(await api(['deployments.logs', ...given])).toEqual({ code: 0, stdout: log, stderr: '' })
    expect((await api(['deployments.logs', ...given, '--tail', '0'])).stdout).toBe('')
    // The build may have waited for the builds of other tests, and says so.
    const build = await read({ stream: 'build' })
    expect(build).not.toBe(log)
    expect((await api(['deployments.logs', ...given, '--stream', 'build'])).stdout).toBe(build)
  })

  it('uploads a file', async () => {
    const project_id = await newProject()
    const content = randomBytes(100_000)
    const file = join(directory.path, 'figures.png')
    await writeFile(file, content)
    const made = JSON.parse((await api(['storage.upload', '--project-id', project_id, '--file', file])).stdout)
    expect(made).toMatchObject({ name: 'figures.png', size: content.length })
    expect(Buffer.from(await (await fetch(made.url)).arrayBuffer()).equals(content)).toBe(true)
    const shown = await server.client.storage.get({ params: { project_id, id: made.id } })
    expect(shown.content_type).toBe('image/png')
    const named = await api(['storage.upload', '--project-id', project_id, '--file', file, '--name', 'März.png'])
    expect(JSON.parse(named.stdout)).toMatchObject({ name: 'März.png' })
  })

  it('prints how to request the next page', async () => {
    const account = await server.accounts.create({ name: 'pager', plan: 'free' })
    const apiKey = await server.key({ accountId: account.id })
    for (const name of ['one', 'two', 'three']) await server.clientFor(apiKey).projects.create({ body: { name } })
    const list = (...args: string[]) =>
      commandHere(['api', 'projects.list', '--limit', '2', ...args], { ...environment(), FAIRLEAD_API_KEY: apiKey })
    const names = (stdout: string) => (JSON.parse(stdout).projects as { name: string }[]).map(({ name }) => name)
    const first = await list()
    expect(names(first.stdout)).toEqual(['three', 'two'])
    const cursor = /--cursor (\S+)\n$/.exec(first.stderr)?.[1] ?? ''
    const second = await list('--cursor', cursor)
    expect(names(second.stdout)).toEqual(['one'])
    expect(second.stderr).toBe('')
  })

  it('prints an error with its fields and the request id', async () => {
    const { code, stdout, stderr } = await api(['projects.create', '--data', '{"name":"","region":"EU"}'])
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(
      /^fairlead: name: must not be empty\n {2}field: name\n {2}also: region: must be .*\n {2}request id: [\w-]+\n$/,
    )
    const missing = await api(['projects.get', '--project-id', 'proj_01h455vb4pex5vsknk084sn02q'])
    expect([missing.code, missing.stdout]).toEqual([1, ''])
    expect(missing.stderr).toMatch(/^fairlead: There is no such resource.*\n {2}request id: [\w-]+\n$/)
  })
})
