import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { type ServerWithTrap, serverWithTrap } from '../../harness/server-with-trap.ts'

let given: ServerWithTrap
let honest: Repository
beforeAll(async () => {
  given = await serverWithTrap()
  honest = await repository(nodeApp('honest'))
})
afterAll(async () => {
  await given?.[Symbol.asyncDispose]()
  await honest?.[Symbol.asyncDispose]()
})

const create = (body: Record<string, unknown>): Promise<Response> =>
  fetch(`${given.server.baseUrl}/projects/${given.projectId}/deployments`, {
    method: 'POST',
    headers: { authorization: `Bearer ${given.server.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'honest', git_url: honest.url, ...body }),
  })

describe('a request is refused with', () => {
  /** `TRACE` stands for the file that shows that a command was executed. */
  const addresses = [
    'ext::sh -c "touch TRACE"',
    'ext::touch% TRACE',
    'fd::17/foo',
    'transport::https://example.com/a.git',
    '--upload-pack=touch TRACE',
    '-oProxyCommand=touch TRACE',
    'ssh://-oProxyCommand=touch TRACE/a.git',
    '-oProxyCommand=touch@host:a.git',
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
  test.each(addresses.map((address) => [address.slice(0, 80), address]))('the git_url %j', async (_, pattern) => {
    const response = await create({ git_url: pattern.replaceAll('TRACE', given.trace) })
    expect(response.status).toBe(400)
    await given.expectUnharmed()
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
    ['name', '\u202egnp.exe'],
    ['name', 'pay\u200bpal'],
    ['name', 'ad\u200dmin'],
    ['name', 'a\u{e0041}'],
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
    ['env_vars', { A: 'x'.repeat(32_000), B: 'ä'.repeat(17_000) }],
    ['env_vars', Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`A${n}`, 'x']))],
  ])('the %s %j', async (field, value) => {
    const response = await create({ [field]: value })
    expect(response.status).toBe(400)
    await given.expectUnharmed()
  })
})

describe('a request is accepted and harmless with', () => {
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
  ])('the name %j', async (name) => {
    const { client } = given.server
    const own = await client.projects.create({ body: { name: 'names' } })
    const made = await deployAndSettle(client, own.id, { name, git_url: honest.url })
    expect({ name, failure: made.failure }).toEqual({ name, failure: null })
    expect(await (await fetch(made.url)).text()).toBe('honest')
    await client.deployments.stop({ params: { project_id: own.id, id: made.id } })
    await given.expectUnharmed()
  })
})
