import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { freePort } from '../../harness/ports.ts'
import { ownServerWithProject, type ServerWithProject } from '../../harness/project.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await ownServerWithProject({
    FAIRLEAD_APPS_DOMAIN: 'apps.example.net',
    FAIRLEAD_GATEWAY_PORT: String(await freePort()),
  })
  // A domain needs an app, but no release.
  await given.create('shop', 'https://git.example.com/team/shop.git')
})
afterAll(() => given?.[Symbol.asyncDispose]())

const run = (...args: string[]) =>
  commandHere(['domains', ...args], { FAIRLEAD_URL: given.server.url, FAIRLEAD_API_KEY: given.server.apiKey })

const query = (text: string, ...values: unknown[]) => given.server.database.query(text, values)

/** Verifies a domain, as a check of its DNS would, once it exists. A check under way leaves a verified domain active. */
async function verify(name: string): Promise<void> {
  await expect.poll(() => query('select from domains where name = $1', name), { timeout: 60_000 }).toHaveLength(1)
  await query(
    "update domains set status = 'active', problems = '[]', served_since = now(), next_check_at = null where name = $1",
    name,
  )
}

describe('fairlead domains', { timeout: 120_000 }, () => {
  it('adds a domain, prints the records to set, and removes it', async () => {
    const added = await run('add', 'shop', 'shop.example.com', '--redirect')
    expect(added).toMatchObject({ code: 0, stderr: expect.stringContaining('Set these records where the DNS') })
    expect(added.stdout).toMatch(/^CNAME\tshop\.example\.com\t\S+\.apps\.example\.net\ttraffic$/m)
    expect(added.stderr).toContain('fairlead domains check shop shop.example.com')
    const again = await run('add', 'shop', 'shop.example.com')
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('is a domain of this app already') })
    expect((await run('list', 'shop')).stdout).toMatch(/^shop\.example\.com\tpending\tredirects\tno certificate\t/)
    expect(await run('remove', 'shop', 'SHOP.example.com.')).toMatchObject({ code: 0 })
    expect((await run('list', 'shop')).stdout).toBe('')
    const gone = await run('remove', 'shop', 'shop.example.com')
    expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining('has no domain shop.example.com') })
  })

  it('waits until a domain is served, and makes it primary', async () => {
    const adding = run('add', 'shop', 'bücher.example.com', '--wait')
    await verify('xn--bcher-kva.example.com')
    expect(await adding).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/\nhttps:\/\/xn--bcher-kva\.example\.com\n$/),
    })
    const primary = await run('primary', 'shop', 'bücher.example.com')
    expect(primary.stderr).toBe('xn--bcher-kva.example.com is the primary domain.\n')
    expect((await run('list', 'shop')).stdout).toMatch(/^xn--bcher-kva\.example\.com\tactive\tprimary\t/)
  })

  it('prints the result of a check, with its status', async () => {
    await run('add', 'shop', '*.example.com')
    const checked = await run('check', 'shop', '*.example.com')
    expect(checked).toMatchObject({ code: 1, stderr: expect.stringContaining('It is not served yet.') })
    const unknown = await run('check', 'shop', 'other.example.com')
    expect(unknown.stderr).toContain('The app has no domain other.example.com.')
    const primary = await run('primary', 'shop', '*.example.com')
    expect(primary).toMatchObject({ code: 1, stderr: expect.stringContaining('primary') })
  })
})
