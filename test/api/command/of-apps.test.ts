import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { type ServerWithImages, serverWithImages } from '../../harness/image-server.ts'
import { digestOf } from '../../harness/runtimes/example-images.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/* The apps are images in the memory of this process: commands treat all apps alike. */

const image = 'registry.example/team/shop:1'

let given: ServerWithImages
let folder: Awaited<ReturnType<typeof temporaryDirectory>>
beforeAll(async () => {
  folder = await temporaryDirectory()
  given = await serverWithImages()
  given.registry.commands.set(digestOf('1'), ['node', 'app.js', 'listens'])
  given.registry.tags.set(image, digestOf('1'))
})
afterAll(async () => {
  await given?.[Symbol.asyncDispose]()
  await folder?.[Symbol.asyncDispose]()
})

const environment = () => ({ FAIRLEAD_URL: given.server.url, FAIRLEAD_API_KEY: given.server.apiKey })
const run = (...args: string[]) => commandHere(args, environment())
const runWith = (input: string, ...args: string[]) => commandHere(args, environment(), { input })
const lines = (text: string) => text.trim().split('\n')
const paramsOf = async (name: string) => ({ project_id: given.projectId, app_id: (await given.appNamed(name)).id })
/** The variable in the apps' response. */
const greetingAt = async (url: string) => ((await (await fetch(url.trim())).json()) as { GREETING?: string }).GREETING

describe('fairlead deploy --image', () => {
  it('deploys an image as an app of its name', async () => {
    const { code, stdout, stderr } = await run('deploy', '--image', image, '--project', 'p')
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('shop runs after') })
    const { serving } = await given.appNamed('shop')
    expect(serving?.image).toEqual({ reference: image, digest: digestOf('1') })
    expect((await fetch(stdout.trim())).status).toBe(200)
  })

  it('names the fault of a reference, of a second source, and of a volume', async () => {
    const wrong = await run('deploy', '--image', 'Shop', '--project', 'p')
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('--image must be in lower case') })
    const both = await run('deploy', '--image', 'shop', '--branch', 'main')
    expect(both).toMatchObject({ code: 1, stderr: expect.stringContaining('--image has its own source') })
    const volume = await run('deploy', '--image', image, '--volume', 'data')
    expect(volume).toMatchObject({ code: 1, stderr: expect.stringContaining('such as uploads=/var/lib/uploads') })
  })
})

describe('fairlead', () => {
  it('stores, lists and removes credentials for registries', async () => {
    const add = ['registries', 'add', 'registry.example', '--username', 'deploy']
    expect((await run(...add)).stderr).toContain('on standard input')
    expect(await runWith('a token that may pull\n', ...add)).toMatchObject({ code: 0, stdout: '' })
    const { stdout } = await run('registries', 'list', '--project', 'p')
    expect(stdout).toMatch(/^registry\.example\tdeploy\tsince 2\S+Z\n$/)
    expect(await run('registries', 'remove', 'registry.example')).toMatchObject({ code: 0 })
    const gone = await run('registries', 'remove', 'registry.example')
    expect(gone.stderr).toContain('no credentials for registry.example')
  })

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

  it('promotes the serving release of an app', async () => {
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

  it('lists and cancels commands, and says why there is no output yet', async () => {
    const body = { command: ['node', 'app.js', 'waits'] }
    const { id } = await given.client.runs.create({ params: await paramsOf('shop'), body })
    expect(await run('runs', 'logs', 'shop', id)).toEqual({
      code: 0,
      stdout: '',
      stderr: 'Its output is stored when it ends.\n',
    })
    expect((await run('runs', 'cancel', 'shop', id)).stderr).toBe('The command is canceled.\n')
    const [newest] = lines((await run('runs', 'list', 'shop')).stdout)
    expect(newest?.split('\t').slice(1)).toEqual(['canceled', 'It was canceled.', id, 'node app.js waits'])
  })

  it('prints a command’s output', async () => {
    const ran = await runWith('one\n', 'run', 'shop', '--', 'node', 'app.js', 'echoes')
    expect(ran).toEqual({ code: 3, stdout: 'one\n', stderr: 'an error line\n' })
    const id = lines((await run('runs', 'list', 'shop')).stdout)[0]?.split('\t')[3] ?? ''
    const printed = await run('runs', 'logs', 'shop', id)
    expect(lines(printed.stdout).sort()).toEqual(['an error line', 'one'])
  })

  it('names what a command lacks: an app, a terminal, or the permission to run it', async () => {
    const unknown = await run('run', 'none', '--', 'true')
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining('There is no app none.') })
    const noTerminal = await run('run', 'shop', '--tty', '--', 'true')
    expect(noTerminal).toMatchObject({ code: 1, stderr: expect.stringContaining('--tty needs a terminal') })
    const apiKey = await given.server.key({ preset: 'deploy' })
    const refused = await commandHere(['run', 'shop', '--', 'env'], { ...environment(), FAIRLEAD_API_KEY: apiKey })
    expect(refused.stderr).toContain('lacks the permission runs:write')
    expect(refused.stderr).toContain('Settings → API Keys')
  })

  it('adds, lists and removes schedules, and shows their runs', async () => {
    const schedules = (...args: string[]) => run('schedules', ...args)
    const when = ['30 4 * * *', '--timezone', 'Europe/Berlin']
    const added = await schedules('add', 'shop', 'nightly', ...when, '--', 'ls', '-l')
    expect(added).toMatchObject({ code: 0, stdout: expect.stringContaining('nightly runs next at ') })
    expect((await schedules('list', 'shop')).stdout).toMatch(
      /^nightly\t30 4 \* \* \* \(Europe\/Berlin\)\tnext .*\tls -l\n$/,
    )
    expect(await schedules('runs', 'shop', 'nightly')).toEqual({ code: 0, stdout: '', stderr: '' })
    expect((await schedules('remove', 'shop', 'nightly')).code).toBe(0)
    expect((await schedules('runs', 'shop', 'nightly')).stderr).toContain('The app has no schedule nightly.')
    const wrong = await schedules('add', 'shop', 'x', '* * *', '--', 'true')
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('five fields') })
  })

  it('sets numbers of instances, and lists the running instances', async () => {
    expect((await run('ps', 'shop')).stdout).toMatch(/^web: 1 × \d+ MB, [\d.]+ CPU: .*\n {2}web\.1 running/)
    expect(await run('scale', 'shop', 'web=2')).toMatchObject({ code: 0 })
    await expect
      .poll(async () => (await run('ps', 'shop')).stdout, { timeout: 60_000 })
      .toMatch(/web\.1 running[\s\S]*web\.2 running since /)
    const back = await run('scale', 'shop', 'web=default', '--json')
    expect(JSON.parse(back.stdout).processes).toMatchObject([{ asked: null, instances: 1 }])
    expect(await run('scale', 'shop', 'web')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('such as web=3'),
    })
    expect((await run('scale', 'shop', 'mail=1')).stderr).toContain('is not a process type of this app, which has: web')
  })

  it('prints the metrics of an app as a table and as JSON', async () => {
    const { url } = await given.appNamed('shop')
    await (await fetch(url)).arrayBuffer()
    const counted = async () => lines((await run('metrics', 'shop')).stdout).join('\n')
    await expect.poll(counted, { timeout: 60_000, interval: 1_000 }).toMatch(/\n[\d-]+T[\d:.]+Z +[1-9]\d* /)
    const text = await counted()
    expect(text).toMatch(/^time +requests +2xx +3xx +4xx +5xx +p50 +p95 +p99 +CPU +memory +instances +restarts\n/)
    expect(text).toMatch(/\nall of 1h +[1-9]/)
    expect(text).toMatch(/\n\S+Z release dep_\w+/)
    for (const range of ['24h', '7d']) {
      const { stdout } = await run('metrics', 'shop', '--range', range, '--json')
      expect(JSON.parse(stdout)).toMatchObject({ range, points: expect.any(Array) })
    }
    expect(await run('metrics', 'shop', '--range', '2d')).toMatchObject({ code: 1 })
  })
})

describe('fairlead env', () => {
  it('lists names, and redeploys the serving release with another variable, or without one', async () => {
    const variables = ['--env', 'GREETING=first', 'OTHER=x']
    await run('deploy', '--image', image, '--project', 'p', '--name', 'web', ...variables)
    expect(await run('env', '--app', 'web')).toMatchObject({ code: 0, stdout: 'GREETING\nOTHER\n' })
    const file = join(folder.path, 'variables')
    await writeFile(file, 'GREETING="third"\n')
    const set = await run('env', 'set', '--file', file, '--app', 'web')
    expect(await greetingAt(set.stdout)).toBe('third')
    const unset = await run('env', 'unset', 'GREETING', '--app', 'web', '--json')
    expect(JSON.parse(unset.stdout)).toMatchObject({ env_var_names: ['OTHER'], status: 'running' })
    expect((await run('env', 'unset', 'GREETING', '--app', 'web')).stderr).toContain('has no variable GREETING')
  })

  it('saves a change for later, and imports and copies variables', async () => {
    const later = await run('env', 'set', 'LEVEL=debug', '--plain', '--no-apply', '--app', 'web')
    expect(later).toMatchObject({
      code: 0,
      stdout: 'LEVEL="debug"\nOTHER\n',
      stderr: expect.stringContaining('Not applied yet: LEVEL.'),
    })
    expect((await run('env', 'apply', '--app', 'web', '--json')).stdout).toMatch(/"LEVEL",\s+"OTHER"/)
    const file = join(folder.path, 'imported')
    await writeFile(file, 'WHO="imported"\n')
    await run('env', 'import', file, '--app', 'live', '--no-apply')
    const copied = await run('env', 'copy', 'web', 'LEVEL', '--app', 'live', '--no-apply')
    expect(copied.stdout).toBe('LEVEL="debug"\nWHO\n')
  })
  it('leaves the app unchanged when a name or a value is wrong', async () => {
    const body = { name: 'own', image, env_vars: { GREETING: 'of the deployment' } }
    await given.client.deployments.create({ params: { project_id: given.projectId }, body })
    await expect.poll(async () => (await given.appNamed('own')).serving, { timeout: 60_000 }).not.toBeNull()
    const at = ['--app', 'own', '--no-apply']
    const refused = async (...args: string[]) => (await run('env', ...args, ...at)).stderr
    expect(await refused('unset', 'NOPE')).toContain('The app own has no variable NOPE.')
    expect(await refused('copy', 'web', 'NOPE')).toContain('The app web has no variable NOPE.')
    expect(await refused('set', 'NO-NAME=x')).toContain('NO-NAME: ')
    const params = await paramsOf('own')
    expect(await given.client.variables.list({ params })).toMatchObject({ variables: [], env_vars: ['GREETING'] })
    expect(await run('env', 'unset', 'GREETING', ...at)).toMatchObject({ code: 0, stdout: '' })
  })

  it('creates no project for a deployment with a wrong variable', async () => {
    const wrong = await run('deploy', '--image', image, '--project', 'not made', '--env', '=x')
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('NAME=value') })
    const { projects } = await given.client.projects.list()
    expect(projects.map(({ name }) => name)).not.toContain('not made')
  })
})
