import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { node20 } from '../../harness/node-20.ts'
import { type TestServer, testServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const run = promisify(execFile)
let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

it('everybody can download the package, with its length, type and tag', async () => {
  const response = await fetch(`${server.url}/cli.tgz`)
  const content = Buffer.from(await response.arrayBuffer())
  expect(response.status).toBe(200)
  const etag = response.headers.get('etag') ?? ''
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'content-type': 'application/gzip',
    'content-length': String(content.length),
    etag: `"${createHash('sha256').update(content).digest('base64url')}"`,
  })
  const again = await fetch(`${server.url}/cli.tgz`, { headers: { 'if-none-match': etag } })
  expect([again.status, (await again.arrayBuffer()).byteLength]).toEqual([304, 0])
  const head = await fetch(`${server.url}/cli.tgz`, { method: 'HEAD' })
  expect([head.status, head.headers.get('content-length')]).toEqual([200, String(content.length)])
  expect((await fetch(`${server.url}/cli.tgz`, { method: 'POST' })).status).toBe(404)
})

it('the package is the command of exactly this version; npm installs it alone, and Node 20 runs it', async () => {
  await using folder = await temporaryDirectory()
  const { version } = JSON.parse(await readFile('server/package.json', 'utf8')) as { version: string }
  // Without a registry: everything is in the package.
  const options = ['--prefix', folder.path, '--no-audit', '--no-fund', '--cache', `${folder.path}/cache`]
  await run('npm', ['install', ...options, '--registry', 'http://127.0.0.1:9', `${server.url}/cli.tgz`])
  const { stdout: installed } = await run('npm', ['ls', '--prefix', folder.path, '--all', '--parseable'])
  expect(installed.trim().split('\n').slice(1)).toEqual([`${folder.path}/node_modules/@fairlead/cli`])
  const env = { PATH: process.env['PATH'], FAIRLEAD_URL: server.url, FAIRLEAD_API_KEY: server.apiKey }
  const program = `${folder.path}/node_modules/.bin/fairlead`
  for (const node of node20 === undefined ? [process.execPath] : [process.execPath, node20]) {
    expect((await run(node, [program, '--version'], { env })).stdout.trim()).toBe(version)
    const { stdout } = await run(node, [program, 'api', 'account.get'], { env })
    expect(JSON.parse(stdout)).toMatchObject({ name: 'test' })
  }
})
