import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fairlead } from '../../harness/process.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
  await given.deploy('shop')
})
afterAll(() => given?.[Symbol.asyncDispose]())

const run = (...args: string[]) =>
  fairlead(args, { FAIRLEAD_URL: given.server.url, FAIRLEAD_API_KEY: given.server.apiKey })
const lines = (text: string) => text.trim().split('\n')

describe('fairlead', { timeout: 120_000 }, () => {
  it('links databases to an app, by their names', async () => {
    const params = { project_id: given.projectId }
    const { id } = await given.client.databases.create({ params, body: { name: 'orders' } })
    const added = await run('links', 'add', 'shop', 'orders', '--variable', 'ORDERS_URL')
    expect(added).toMatchObject({ code: 0, stdout: 'ORDERS_URL has the connection string of orders\n' })
    expect((await run('links', 'list', 'shop')).stdout).toBe(`ORDERS_URL\torders\t${id}\n`)
    expect((await run('links', 'add', 'shop', 'others')).stderr).toContain('The project has no database others.')
    expect(await run('links', 'remove', 'shop', 'ORDERS_URL')).toMatchObject({ code: 0 })
    expect((await run('links', 'list', 'shop')).stdout).toBe('')
  })

  it('promotes what serves an app', async () => {
    const promoted = await run('promote', 'shop', '--to', 'live')
    expect(promoted).toMatchObject({ code: 0 })
    const { serving } = await given.appNamed('live')
    const from = (await given.appNamed('shop')).serving?.id
    const read = await given.client.deployments.get(given.paramsOf(serving?.id ?? ''))
    expect(read).toMatchObject({ status: 'running', from_deployment_id: from })
    expect(promoted.stdout).toBe(`${read.url}\n`)
  })

  it('makes a deploy key, shows its public part, and removes it', async () => {
    const made = await run('git', 'deploy-key', 'shop', '--git-url', 'git@example.com:team/shop.git')
    const [first, publicKey] = lines(made.stdout)
    expect(first).toContain('deploy key for git@example.com:team/shop.git')
    expect(publicKey).toMatch(/^ssh-ed25519 /)
    expect(made.stderr).toContain('fairlead deploy git@example.com:team/shop.git --name shop')
    expect(lines((await run('git', 'show', 'shop')).stdout)[1]).toBe(publicKey)
    expect(await run('git', 'forget', 'shop')).toMatchObject({ code: 0 })
    expect(await run('git', 'remove', 'shop')).toMatchObject({ code: 0 })
    expect((await run('git', 'show', 'shop')).stdout).toBe('no credentials\n')
    expect((await run('git', 'token', 'shop')).stderr).toContain('on standard input')
  })

  it('lists and cancels commands', async () => {
    const params = { project_id: given.projectId, app_id: (await given.appNamed('shop')).id }
    const { id } = await given.client.runs.create({ params, body: { command: ['sleep', '60'] } })
    expect((await run('runs', 'cancel', 'shop', id)).stderr).toBe('The command is canceled.\n')
    const [newest] = lines((await run('runs', 'list', 'shop')).stdout)
    expect(newest?.split('\t').slice(1)).toEqual(['canceled', 'It was canceled.', id, 'sleep 60'])
  })

  it('prints what a command has printed, and why there is nothing', async () => {
    const ran = await run('run', 'shop', '--', 'node', '-e', 'console.log("one"); console.error("two")')
    expect(ran).toMatchObject({ code: 0 })
    const id = lines((await run('runs', 'list', 'shop')).stdout)[0]?.split('\t')[3] ?? ''
    const printed = await run('runs', 'logs', 'shop', id)
    expect(lines(printed.stdout).sort()).toEqual(['one', 'two'])
    const params = { project_id: given.projectId, app_id: (await given.appNamed('shop')).id }
    const { id: waiting } = await given.client.runs.create({ params, body: { command: ['true'] } })
    expect(await run('runs', 'logs', 'shop', waiting)).toEqual({
      code: 0,
      stdout: '',
      stderr: 'Its output is stored when it ends.\n',
    })
  })

  it('prints the metrics of an app as a table and as JSON', async () => {
    const { url } = await given.appNamed('shop')
    await (await fetch(url)).arrayBuffer()
    const counted = async () => lines((await run('metrics', 'shop')).stdout).join('\n')
    await expect.poll(counted, { timeout: 60_000, interval: 1_000 }).toMatch(/\n[\d-]+T[\d:.]+Z +[1-9]\d* /)
    const text = await counted()
    expect(text).toMatch(/^time +requests +2xx +3xx +4xx +5xx +p50 +p95 +p99 +CPU +memory +instances +restarts\n/)
    expect(text).toMatch(/\nall of 1h +[1-9]/)
    expect(text).toMatch(/\n\S+Z release dep_\w+, commit [\da-f]{12}$/)
    for (const range of ['24h', '7d']) {
      const { stdout } = await run('metrics', 'shop', '--range', range, '--json')
      expect(JSON.parse(stdout)).toMatchObject({ range, points: expect.any(Array) })
    }
    expect(await run('metrics', 'shop', '--range', '2d')).toMatchObject({ code: 1 })
  })

  it('says how to get a key that may run commands', async () => {
    const apiKey = await given.server.key({ preset: 'deploy' })
    const refused = await fairlead(['run', 'shop', '--', 'env'], {
      FAIRLEAD_URL: given.server.url,
      FAIRLEAD_API_KEY: apiKey,
    })
    expect(refused.stderr).toContain('lacks the permission runs:write')
    expect(refused.stderr).toContain('Settings → API Keys')
  })
})
