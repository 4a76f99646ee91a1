import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findProgram } from '../../../server/src/platform/programs.ts'
import { freePort } from '../../harness/ports.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const router = fileURLToPath(new URL('../../../server/assets/php/router.php', import.meta.url))
const php = await findProgram('php', '/usr/local/bin:/usr/bin:/bin')

/** Serves a folder of these files by PHP's built-in server, without workers. */
async function serve(files: Readonly<Record<string, string>>) {
  const folder = await temporaryDirectory()
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder.path, path)), { recursive: true })
    await writeFile(join(folder.path, path), text)
  }
  const address = `127.0.0.1:${await freePort()}`
  const child = spawn(php ?? '', ['-S', address, '-t', folder.path, router], { stdio: ['ignore', 'ignore', 'pipe'] })
  for await (const line of child.stderr) if (String(line).includes('started')) break
  return {
    ask: async (path: string) => {
      const answer = await fetch(`http://${address}${path}`)
      return [answer.status, await answer.text()] as const
    },
    async [Symbol.asyncDispose]() {
      child.kill()
      await once(child, 'exit')
      await folder[Symbol.asyncDispose]()
    },
  }
}

describe.skipIf(php === null)(`an app in PHP${php === null ? ' (needs php)' : ''}`, () => {
  let server: Awaited<ReturnType<typeof serve>>
  beforeAll(async () => {
    server = await serve({
      'index.php': `<?php echo "front ", $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_URI'], ' ', getcwd() === __DIR__ ? 'here' : '';`,
      'page.php': '<?php echo "page";',
      'admin/index.php': '<?php echo "admin";',
      'style.css': 'body {}',
      '.env': 'APP_KEY=secret',
      '.git/config': 'secret',
      '.well-known/security.txt': 'Contact: x',
      'composer.json': '{}',
      'vendor/lib/secret.php': '<?php echo "secret";',
    })
  })
  afterAll(() => server[Symbol.asyncDispose]())

  it.each([
    ['/', 'front /index.php / here'],
    ['/posts/1', 'front /index.php /posts/1 here'],
    ['/feed.xml?page=2', 'front /index.php /feed.xml?page=2 here'],
    ['/page.php', 'page'],
    ['/admin/', 'admin'],
    ['/style.css', 'body {}'],
    ['/.well-known/security.txt', 'Contact: x'],
  ])('answers %s with %j', async (path, text) => {
    expect(await server.ask(path)).toEqual([200, text])
  })

  it.each(['/.env', '/%2eenv', '/.git/config', '/composer.json', '/vendor/lib/secret.php', '//vendor/lib/secret.php'])(
    'has nothing at %s',
    async (path) => {
      const [status, text] = await server.ask(path)
      expect(text).not.toContain('secret')
      expect([status, text]).toEqual([404, 'Not found'])
    },
  )
})

it.skipIf(php === null)('a PHP app without a front controller answers 404 for a missing file', async () => {
  await using server = await serve({ 'page.php': '<?php echo "page";', 'index.html': 'home', 'vendor/a.css': 'a' })
  expect(await server.ask('/')).toEqual([200, 'home'])
  expect(await server.ask('/vendor/a.css')).toEqual([200, 'a'])
  expect(await server.ask('/nowhere')).toEqual([404, 'Not found'])
})
