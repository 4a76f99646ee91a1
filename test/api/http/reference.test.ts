import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Operation, operations } from '../../../server/src/contract/operations.ts'
import { type OperationObject, openApiDocument } from '../../../server/src/http/reference/openapi.ts'
import { type TestServer, testServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const document = openApiDocument()

function entryOf(operation: Operation): OperationObject {
  const path = operation.path.replace(/:(\w+)/g, '{$1}')
  const entry = document.paths[path]?.[operation.method.toLowerCase()]
  if (entry === undefined) throw new Error(`${operation.name} is not in the document`)
  return entry
}

const table = operations.map((operation) => [operation.name, operation] as const)

it('/fairlead.schema.json is the schema for editors, and open to everybody', async () => {
  const response = await fetch(`${server.url}/fairlead.schema.json`)
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(await response.json()).toMatchObject({ title: 'fairlead.json', properties: { root: { type: 'string' } } })
})

describe('/openapi.json', () => {
  it('is the document generated from the table, and open to everybody', async () => {
    const response = await fetch(`${server.url}/openapi.json`)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(await response.json()).toEqual(JSON.parse(JSON.stringify(document)))
  })

  it('has no error and no warning by the recommended rules of Redocly', async () => {
    await using directory = await temporaryDirectory()
    const file = join(directory.path, 'openapi.json')
    await writeFile(file, await (await fetch(`${server.url}/openapi.json`)).text())
    const manifest = createRequire(import.meta.url).resolve('@redocly/cli/package.json')
    const command = join(dirname(manifest), 'bin/cli.js')
    const args = [command, 'lint', file, '--extends', 'recommended', '--format', 'json', '--max-problems', '1000']
    // Prevents the linter's update check: no registry answers here.
    const nowhere = 'http://127.0.0.1:9'
    const env = {
      PATH: process.env['PATH'],
      HOME: directory.path,
      REDOCLY_TELEMETRY: 'off',
      REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true',
      HTTP_PROXY: nowhere,
      HTTPS_PROXY: nowhere,
    }
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: directory.path, env }).catch(
      (error: { stdout: string }) => error,
    )
    const { totals, problems } = JSON.parse(stdout)
    expect(problems).toEqual([])
    expect(totals).toMatchObject({ errors: 0, warnings: 0 })
  })

  it.each(table)('declares %s with its statuses, parameters and permission', (name, operation) => {
    const entry = entryOf(operation)
    expect(entry.operationId).toBe(name)
    const expected = [operation.status, 401, 429, 500]
    if (operation.access !== 'any') expected.push(403)
    if (operation.path.includes(':')) expected.push(404)
    expect(Object.keys(entry.responses).map(Number)).toEqual(expect.arrayContaining(expected))
    const parameters = JSON.stringify(entry.parameters)
    for (const [, param] of operation.path.matchAll(/:(\w+)/g)) expect(parameters).toContain(`"name":"${param}"`)
    expect(parameters.includes('/limit"')).toBe(operation.list === true)
    expect(JSON.stringify(entry.responses).includes('/headers/Link')).toBe(operation.list === true)
    expect(entry.security).toHaveLength(1)
  })

  it.each(table)('has an example of %s that fits the schemas of the server', (_, operation) => {
    const entry = entryOf(operation)
    const bodyExample = entry.requestBody?.content['application/json']?.example
    if (operation.body !== undefined) expect(operation.body.safeParse(bodyExample)).toMatchObject({ success: true })
    const answer = entry.responses[operation.status]
    const given = answer !== undefined && 'content' in answer ? answer.content['application/json']?.example : undefined
    if (operation.response !== undefined) expect(operation.response.safeParse(given)).toMatchObject({ success: true })
  })
})

describe('/docs', () => {
  const page = async () => (await fetch(`${server.url}/docs`)).text()

  it('shows every operation with its path and an example to copy', async () => {
    const text = await page()
    for (const { name, path } of operations) {
      expect(text).toContain(`id="${name}"`)
      expect(text).toContain(`<code>${path.replace(/:(\w+)/g, '{$1}')}</code>`)
    }
    expect(text.match(/class="copy"/g)?.length).toBeGreaterThan(operations.length)
  })

  it('loads its two files and nothing from other hosts, and its policy allows no more', async () => {
    const response = await fetch(`${server.url}/docs`)
    const policy = response.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'; style-src 'self'; script-src 'self'")
    expect(policy).not.toContain('unsafe')
    const text = await response.text()
    const loaded = [...text.matchAll(/<(?:link|script|img|iframe)[^>]*?(?:href|src)="([^"]*)"/g)].map(([, url]) => url)
    expect(loaded.sort()).toEqual(['/docs/page.js', '/docs/style.css'])
    expect(text).not.toMatch(/<script(?![^>]*src=)|<style|style="|\son\w+="/)
    for (const [path, type] of [
      ['/docs/style.css', 'text/css; charset=utf-8'],
      ['/docs/page.js', 'text/javascript; charset=utf-8'],
    ]) {
      const file = await fetch(server.url + path)
      expect([file.status, file.headers.get('content-type')]).toEqual([200, type])
      expect(await file.text()).not.toMatch(/https?:|@import|url\(/)
    }
  })

  it('is well-formed: every tag is closed, every id is unique, every link has a target', async () => {
    const text = await page()
    const open: string[] = []
    for (const [, slash, name = ''] of text.matchAll(/<(\/?)([a-z][a-z0-9]*)[^>]*>/g)) {
      if (['meta', 'link', 'br'].includes(name)) continue
      if (slash === '') open.push(name)
      else expect(open.pop()).toBe(name)
    }
    expect(open).toEqual([])
    const ids = [...text.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)
    expect(new Set(ids).size).toBe(ids.length)
    for (const [, target] of text.matchAll(/ href="#([^"]*)"/g)) expect(ids).toContain(target)
  })
})
