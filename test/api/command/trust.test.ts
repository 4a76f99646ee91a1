import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let project: string
const run = (...args: string[]) =>
  commandHere(args, { FAIRLEAD_DATA_DIR: server.dataDirectory, DATABASE_URL: server.database.url })
beforeAll(async () => {
  server = await testServer()
  project = (await server.client.projects.create({ body: { name: 'p' } })).id
})
afterAll(() => server?.[Symbol.asyncDispose]())

const shop = ['--repository', 'acme/shop', '--repository-id', '700100200']

describe('fairlead trust', () => {
  it('adds, lists and removes rules, beside a running server', async () => {
    const added = await run('trust', 'add', project, ...shop, '--branch', 'release/*', '--claim', 'team=a=b')
    expect(added).toMatchObject({ code: 0, stderr: '' })
    const id = added.stdout.trim()
    expect(id).toMatch(/^trust_/)
    const line = new RegExp(`${id} +${project} +acme/shop +700100200 +branch=release/\\* team=a=b +- +https://token\\.`)
    expect((await run('trust', 'list', '--project', project)).stdout).toMatch(line)
    expect(await run('trust', 'remove', id)).toMatchObject({ code: 0, stdout: '', stderr: '' })
    expect((await run('trust', 'list')).stdout).not.toContain(id)
  })

  it.each([
    [['add', 'proj_x', ...shop], 'proj_x'],
    [['remove', 'trust_x'], 'trust_x'],
  ])('%j names what does not exist', async (args, named) => {
    expect(await run('trust', ...args)).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(named) })
  })

  it.each([
    [['--repository', 'acme/shop'], '--repository-id is required'],
    [[...shop, '--event', 'pull_request_target'], '--event cannot be'],
    [[...shop, '--claim', 'nonsense'], '--claim must be'],
    [[...shop, '--issuer', 'http://a.example'], '--issuer must be'],
  ])('%j names the wrong flag', async (args, named) => {
    const result = await run('trust', 'add', project, ...args)
    expect(result).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(named) })
  })
})
