import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createScope, startGateway } from '../../harness/gateway/harness.ts'
import { prefix } from '../../harness/temporary.ts'

/* Sites whose routes exist only in the browser: a page answers for paths without a file. */

let directory: string
const scope = createScope()
beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), prefix)))
})
afterAll(async () => {
  await scope.end()
  await rm(directory, { recursive: true, force: true })
})

async function serve(name: string, files: Readonly<Record<string, string>>, fallback: boolean) {
  const folder = join(directory, name)
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), text)
  }
  const endpoint = fallback ? { folder, fallback: true as const } : { folder }
  const { port, gateway } = await startGateway(scope, { upstream: { deploymentId: 'dep_a', endpoints: [endpoint] } })
  const ask = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { redirect: 'manual' })
    return [answer.status, await answer.text()]
  }
  return { ask, probe: (path: string) => gateway.probe(endpoint, path) }
}

const app = { 'index.html': 'the app', 'assets/a.js': 'code', 'about.html': 'about', '.env': 'SECRET=1' }

describe('a site with routes of the browser', () => {
  test('answers with its index.html for a missing file, but not for scripts and hidden files', async () => {
    const { ask, probe } = await serve('app', app, true)
    for (const path of ['/', '/users/7', '/users/7/', '/users/jane.doe?tab=1', '/assets/', '/%20']) {
      expect([path, ...(await ask(path))]).toEqual([path, 200, 'the app'])
    }
    expect(await ask('/assets/a.js')).toEqual([200, 'code'])
    expect(await ask('/about')).toEqual([200, 'about'])
    for (const path of ['/assets/old.js', '/logo.png', '/data.json', '/.env', '/.git/config', '/a/.b/c']) {
      expect([path, (await ask(path))[0]]).toEqual([path, 404])
    }
    expect((await ask('/%ff'))[0]).toBe(400)
    expect([await probe('/healthz'), await probe('/healthz.js')]).toEqual([200, 404])
  })

  test('prefers its 200.html, and keeps its 404.html', async () => {
    const both = await serve('both', { ...app, '404.html': 'missing', '200.html': 'for all' }, true)
    expect(await both.ask('/users/7')).toEqual([200, 'for all'])
    expect(await both.ask('/')).toEqual([200, 'the app'])
    const missing = await serve('missing', { ...app, '404.html': 'missing' }, true)
    expect(await missing.ask('/users/7')).toEqual([404, 'missing'])
    const none = await serve('none', { '200.html': 'for all' }, true)
    expect(await none.ask('/')).toEqual([200, 'for all'])
  })

  test('differs from a site of pages', async () => {
    const { ask, probe } = await serve('pages', { ...app, '200.html': 'for all' }, false)
    expect((await ask('/users/7'))[0]).toBe(404)
    expect(await probe('/users/7')).toBe(404)
  })
})
