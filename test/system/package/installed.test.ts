import { execFile, spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { node20 } from '../../harness/node-20.ts'
import { noOrdinaryUser, ordinaryDirectory, ordinaryUser, skipped } from '../../harness/ordinary-user.ts'
import { processesIn, serverProcess } from '../../harness/process.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'
import { loads, sameValues, uses } from './consumers.ts'
import { type Installation, install, type Packages, packInto, root } from './installation.ts'

const run = promisify(execFile)
let directory: Awaited<ReturnType<typeof temporaryDirectory>>
let packages: Packages
let installation: Installation
beforeAll(async () => {
  directory = await temporaryDirectory()
  packages = await packInto(directory.path)
  installation = await install([packages.server])
}, 300_000)
afterAll(async () => {
  await installation[Symbol.asyncDispose]()
  await directory[Symbol.asyncDispose]()
})

const users = [
  { who: isRoot ? 'root' : 'the user of the tests', user: null, missing: null },
  ...(isRoot ? [{ who: 'an ordinary user', user: ordinaryUser, missing: await noOrdinaryUser() }] : []),
]
for (const { who, missing } of users) if (missing !== null) skipped(`an installed server as ${who}`, missing)

describe('an installed platform', () => {
  it('prints its version and the machine’s missing programs', async () => {
    const { version } = JSON.parse(await readFile(join(root, 'server/package.json'), 'utf8'))
    expect(await installation.npx(['fairlead', '--version'])).toBe(`${version}\n`)
    const data = { FAIRLEAD_DATA_DIR: join(directory.path, 'doctor') }
    expect(await installation.npx(['fairlead', 'doctor', '--port', '0'], data)).toContain('git version')
  })

  it.each(users.filter(({ missing }) => missing === null))(
    'deploys an app from a repository and serves its dashboard, as $who',
    async ({ user }) => {
      await using data = await ordinaryDirectory()
      const own = user === null ? join(directory.path, 'data') : data.path
      await using source = await repository(nodeApp('installed'))
      if (user !== null) await run('chown', ['-R', `${user.uid}:${user.gid}`, source.path])
      {
        await using server = await serverProcess(own, {}, user, installation.program)
        const keysCreate = ['keys', 'create', '--name', 'me', '--data-dir', own]
        const { stdout: key } = await run(process.execPath, [installation.program, ...keysCreate], { ...user })
        const client = server.clientFor(key.trim())
        const { id: project_id } = await client.projects.create({ body: { name: 'p' } })
        const body = { name: 'web', git_url: source.url }
        const { id } = await client.deployments.create({ params: { project_id }, body })
        const read = () => client.deployments.get({ params: { project_id, id } })
        await expect.poll(async () => (await read()).status, { timeout: 60_000 }).not.toMatch(/queued|building/)
        const { status, url, failure } = await read()
        expect([status, failure ?? null]).toEqual(['running', null])
        expect(await (await fetch(url ?? '')).text()).toBe('installed')
        const dashboard = await fetch(server.url, { headers: { accept: 'text/html' } })
        expect(await dashboard.text()).toContain('<div id="root">')
      }
      expect(await processesIn(own)).toEqual([])
    },
  )

  it.skipIf(node20 === undefined)('says what to do when Node is too old for it', () => {
    const { status, stderr } = spawnSync(node20 ?? '', [installation.program, 'serve'], { encoding: 'utf8' })
    expect(status).toBe(1)
    expect(stderr).toContain('needs Node 24.9 or newer')
    expect(stderr).toContain('npm install node@24')
  })
})

describe('a project that uses the packages', () => {
  // Only the server's package serves above. The users' command would replace the server's command.
  beforeAll(() => installation.add([packages.receiver, packages.server, packages.cli]))

  it.each([
    // With the types of Node, browser types are excluded.
    { module: 'node16', types: [], lib: ['es2022', 'dom'] },
    { module: 'nodenext', types: ['node'], lib: ['es2022'] },
  ])('compiles as ECMAScript module and as CommonJS, with $module and types $types', async (options) => {
    const files = { 'esm.mts': uses, 'commonjs.cts': uses, 'same.cts': sameValues }
    for (const [name, text] of Object.entries(files)) await writeFile(join(installation.path, name), text)
    const strict = { strict: true, exactOptionalPropertyTypes: true, skipLibCheck: false }
    const where = { target: 'es2022', noEmit: true, typeRoots: [join(root, 'node_modules/@types')] }
    const config = { compilerOptions: { ...options, ...strict, ...where }, files: Object.keys(files) }
    await writeFile(join(installation.path, 'tsconfig.json'), JSON.stringify(config))
    const tsc = join(root, 'node_modules/.bin/tsc')
    const { status, stdout } = spawnSync(tsc, ['-p', installation.path], { encoding: 'utf8' })
    expect([stdout, status]).toEqual(['', 0])
  })

  it.each([process.execPath, node20].filter((node) => node !== undefined))(
    'has the command of users, which prints its version with %s',
    async (node) => {
      const { version } = JSON.parse(await readFile(join(root, 'cli/package.json'), 'utf8'))
      const ran = spawnSync(node, [installation.program, '--version'], { encoding: 'utf8' })
      expect([ran.stderr, ran.stdout]).toEqual(['', `${version}\n`])
    },
  )

  const versions = [
    {
      version: 'the Node of the server',
      node: process.execPath,
      entries: ['client', 'dashboard-client', 'exchange', 'dotenv'],
    },
    { version: 'Node 20', node: node20, entries: [] },
  ]
  it.each(versions.filter(({ node }) => node !== undefined))(
    'gets the same modules by require and by import, with $version',
    async ({ node, entries }) => {
      await writeFile(join(installation.path, 'loads.cjs'), loads)
      const names = entries.map((name) => `@fairlead/server/${name}`)
      const ran = spawnSync(node ?? '', ['loads.cjs', '@fairlead/cli', ...names], {
        cwd: installation.path,
        encoding: 'utf8',
      })
      expect([ran.stderr, ran.stdout]).toEqual(['', 'handled\n'])
    },
  )
})
