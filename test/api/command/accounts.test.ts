import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { browser } from '../../harness/browser.ts'
import { commandHere } from '../../harness/command-here.ts'
import { type OwnServer, ownServer } from '../../harness/server.ts'

/*
 * Commands on the data directory of a running server. `command.test.ts` runs them without a server, and as processes.
 */

let server: OwnServer
const run = (...args: string[]) =>
  commandHere(args, { FAIRLEAD_DATA_DIR: server.dataDirectory, DATABASE_URL: server.database.url })
beforeAll(async () => {
  server = await ownServer()
})
afterAll(() => server?.[Symbol.asyncDispose]())

const keyForm = /^fl_[0-9A-Za-z]{36}\n$/

const limitOf = async (key: string) => (await server.clientFor(key).account.get()).rate_limit.limit

describe('fairlead accounts', () => {
  it('creates, changes and lists accounts, and keys can belong to them', async () => {
    const id = (await run('accounts', 'create', '--name', 'Small shop')).stdout.trim()
    expect(id).toMatch(/^acct_/)
    await run('accounts', 'update', id, '--plan', 'pro', '--name', 'Big shop')
    expect((await run('accounts', 'list')).stdout).toMatch(new RegExp(`${id} +pro +plan +Big shop`))
    expect((await run('keys', 'create', '--name', 'a', '--account', id)).stdout).toMatch(keyForm)
    expect((await run('keys', 'list')).stdout).toContain(id)
  })

  it('sets and removes a rate limit of an account, beside a running server', async () => {
    const id = (await run('accounts', 'create', '--name', 'Big shop', '--plan', 'pro')).stdout.trim()
    const key = (await run('keys', 'create', '--new', '--name', 'a', '--account', id)).stdout.trim()
    expect(await limitOf(key)).toBe(10_000)
    expect(await run('accounts', 'update', id, '--requests-per-hour', '123')).toMatchObject({ code: 0, stderr: '' })
    expect(await limitOf(key)).toBe(123)
    expect((await run('accounts', 'list')).stdout).toMatch(new RegExp(`${id} +pro +123 +Big shop`))
    await run('accounts', 'update', id, '--requests-per-hour', 'plan')
    expect(await limitOf(key)).toBe(10_000)
  })

  it.each([
    [['accounts', 'update', 'acct_x'], '--requests-per-hour'],
    [['accounts', 'update', 'acct_x', '--requests-per-hour', '0'], 'whole number'],
    [['keys', 'create', '--new', '--name', 'a', '--scopes', 'moon:read'], 'moon:read'],
    [['keys', 'create', '--new', '--name', 'a', '--expires-in-days', '0'], 'whole number'],
    [['keys', 'rotate', 'key_x'], 'key_x'],
    [['keys', 'rotate', 'key_x', '--overlap-hours', '169'], 'whole number'],
    [['users', 'delete', 'user_x'], 'user_x'],
    [['users', 'setup-link', '--account', 'acct_x'], 'acct_x'],
    [['keys', 'create'], '--name'],
    [['keys', 'create', '--name', 'a', '--preset', 'god'], 'full, read, deploy'],
    [['keys', 'create', '--new', '--name', 'a', '--project', 'proj_x'], 'proj_x'],
    [['keys', 'create', '--new', '--name', 'a', '--account', 'acct_x'], 'acct_x'],
    [['keys', 'create', '--name', 'a', '--data-dir', '/nonexistent/data'], 'No server has been started'],
    [['keys', 'revoke', 'key_x'], 'key_x'],
    [['accounts', 'update', 'acct_x', '--plan', 'pro'], 'acct_x'],
    [['accounts', 'create', '--name', 'a', '--plan', 'gold'], 'free, pro, enterprise'],
    [['nonsense'], 'nonsense'],
  ])('%j fails and names what is wrong', async (args, named) => {
    const result = await run(...args)
    expect(result.code).toBe(1)
    expect(result.stdout).toBe('')
    expect(result.stderr).toContain(named)
  })
})

describe('fairlead keys', () => {
  it('prints only the key, of a preset or of projects, and revokes it', async () => {
    const made = (...args: string[]) => run('keys', 'create', '--name', ...args)
    const full = await made('full')
    expect(full).toMatchObject({ code: 0, stdout: expect.stringMatching(keyForm), stderr: '' })
    const { id } = await server.clientFor(full.stdout.trim()).projects.create({ body: { name: 'p' } })
    const read = server.clientFor((await made('read', '--preset', 'read')).stdout.trim())
    expect((await read.projects.list()).total).toBe(1)
    await expect(read.projects.create({ body: { name: 'q' } })).rejects.toMatchObject({ code: 'forbidden' })

    const bound = server.clientFor((await made('bound', '--project', id)).stdout.trim())
    expect((await bound.projects.get({ params: { project_id: id } })).name).toBe('p')
    const boundId = /(key_\w+) .* bound$/m.exec((await run('keys', 'list')).stdout)?.[1] ?? ''
    expect(await run('keys', 'revoke', boundId)).toMatchObject({ code: 0 })
    await expect(bound.projects.list()).rejects.toMatchObject({ code: 'unauthorized' })
  })

  it('creates keys with scopes and an expiry, and rotates them', async () => {
    const key = (
      await run(
        'keys',
        'create',
        '--name',
        'narrow',
        '--scopes',
        'projects:read,webhooks:read',
        '--expires-in-days',
        '3',
      )
    ).stdout.trim()
    const client = server.clientFor(key)
    await client.projects.list()
    await client.webhooks.list()
    await expect(client.projects.create({ body: { name: 'p' } })).rejects.toMatchObject({ code: 'forbidden' })
    const line = (await run('keys', 'list')).stdout.split('\n').find((row) => row.endsWith(' narrow'))
    expect(line).toContain(`${key.slice(0, 7)}…`)
    const id = line?.split(' ')[0] ?? ''
    const rotated = (await run('keys', 'rotate', id, '--overlap-hours', '0')).stdout.trim()
    await expect(client.projects.list()).rejects.toMatchObject({ code: 'unauthorized' })
    await server.clientFor(rotated).projects.list()
    const ended = await run('keys', 'rotate', id)
    expect(ended).toMatchObject({ code: 1 })
    expect(ended.stderr).toContain('revoked or expired')
  })
})

describe('fairlead users', () => {
  it('invites a user by a link, lists and removes them, and records it in the audit log', async () => {
    const made = await run('users', 'setup-link', '--url', 'https://fairlead.example.com/')
    expect(made.stdout).toMatch(/^https:\/\/fairlead\.example\.com\/setup#[\w-]{43}\n$/)
    const token = new URL(made.stdout.trim()).hash.slice(1)
    const opened = browser(server.url)
    const body = { token, email: 'someone@example.com', password: 'correct horse battery staple' }
    const { user } = await opened.dashboard.setup.complete({ body })
    expect((await run('users', 'list')).stdout).toMatch(new RegExp(`${user.id} +acct_\\w+ .* someone@example.com`))
    const { entries } = await opened.client.auditLog.list()
    expect(entries.map(({ operation }) => operation).slice(0, 2)).toEqual(['setup.complete', 'users.setup_link'])
    expect(entries[1]).toMatchObject({ actor: { type: 'command', id: null }, address: null, request_id: null })

    expect(await run('users', 'delete', user.id)).toMatchObject({ code: 0 })
    await expect(opened.dashboard.session.get()).rejects.toMatchObject({ code: 'unauthorized' })
  })

  it('prints links to the address of the running server', async () => {
    expect((await run('users', 'setup-link')).stdout).toContain(`${server.url}/setup#`)
  })
})

describe('fairlead doctor', () => {
  it('beside a running server: status 0, and the owner of the port', async () => {
    const { port } = new URL(server.url)
    const environment = { FAIRLEAD_DATA_DIR: server.dataDirectory, FAIRLEAD_PORT: port }
    const { code, stdout } = await commandHere(['doctor'], environment)
    expect(stdout).toMatch(new RegExp(`^ok +API port +.*127.0.0.1:${port}: the server runs`, 'm'))
    expect(code).toBe(0)
  })
})
