import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { repository } from '../../harness/repository.ts'
import { fixturePath } from '../../harness/runtimes/support.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let projectId: string
/** It takes 20 seconds, so it is built beside the other tests. */
let silent: Promise<{ readonly id: string; readonly project: string }>
beforeAll(async () => {
  server = await testServer()
  silent = deployedSilently()
  // The last test awaits it; until then a rejection must not be unhandled.
  silent.catch(() => undefined)
})
beforeEach(async () => {
  projectId = (await server.client.projects.create({ body: { name: 'kinds' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

/** Reads the files of a fixture, by their paths. */
async function filesOf(fixture: string): Promise<Record<string, string>> {
  const root = fixturePath(fixture)
  const entries = await readdir(root, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  return Object.fromEntries(
    await Promise.all(files.map(async (file) => [relative(root, file), await readFile(file, 'utf8')] as const)),
  )
}

/** Deploys the files and returns the deployment when it is settled. */
async function deployed(files: Readonly<Record<string, string>>, variables: Record<string, string> = {}) {
  await using app = await repository(files)
  return await deployAndSettle(server.client, projectId, { name: 'app', git_url: app.url, env_vars: variables })
}

/** Deploys the files, which must run, and returns the app's address. */
async function running(files: Readonly<Record<string, string>>, variables?: Record<string, string>): Promise<string> {
  const { failure, status, url } = await deployed(files, variables)
  expect({ failure, status }).toEqual({ failure: null, status: 'running' })
  return url
}

const buildLog = async (id: string, project_id = projectId): Promise<string> =>
  (await server.client.deployments.logs({ params: { project_id, id }, query: { stream: 'build' } })).text()

const read = async (url: string): Promise<string> => (await fetch(url)).text()

const httpServer = (answer: string) =>
  `require('node:http').createServer((request, response) => { ${answer} }).listen(process.env.PORT)\n`

async function deployedSilently(): Promise<{ readonly id: string; readonly project: string }> {
  const { id: project } = await server.client.projects.create({ body: { name: 'silent' } })
  await using app = await repository({
    'fairlead.json': JSON.stringify({ build: ['node', 'build.js'], start: ['node', 'server.js'] }),
    'build.js': "setTimeout(() => process.stdout.write('made\\n'), 20_000)",
    'server.js': httpServer('response.end()'),
  })
  const { id } = await deployAndSettle(server.client, project, { name: 'silent', git_url: app.url })
  return { id, project }
}

describe('a Node app', () => {
  it('runs in a workspace of pnpm, and its next build downloads nothing again', async () => {
    await using app = await repository(await filesOf('pnpm-workspace'))
    const request = { name: 'cached', git_url: app.url }
    const { url } = await deployAndSettle(server.client, projectId, request)
    expect(await read(url)).toBe('Hello from pnpm, an hour has 3600000 ms')
    const next = await deployAndSettle(server.client, projectId, request)
    expect(await buildLog(next.id)).toMatch(/reused 1, downloaded 0/)
  })

  it.each([
    ['express', '"express": "^5.1.0"', '"ms": "2.1.2", "express": "^5.1.0"', 'npm ci', 'Hello from Express'],
    ['yarn-classic', '2.1.3', '2.1.2', 'yarn install --frozen-lockfile', 'Hello from Yarn 1, an hour has 3600000 ms'],
    ['yarn-modern', '2.1.3', '2.1.2', 'yarn install --immutable', 'Hello from Yarn 4, an hour has 3600000 ms'],
  ])(
    'runs, with a warning, when the lock file of %s does not fit its package.json',
    async (fixture, from, to, first, page) => {
      const files = await filesOf(fixture)
      const { failure, status, url, id } = await deployed({
        ...files,
        'package.json': (files['package.json'] ?? '').replace(from, to),
      })
      expect({ failure, status }).toEqual({ failure: null, status: 'running' })
      expect(await read(url)).toBe(page)
      const log = await buildLog(id)
      expect(log).toContain(first)
      expect(log).toMatch(/warning: The lock file does not fit package\.json, .*commit the lock file that it writes/)
    },
  )
})

it('a build that needs a hash from before OpenSSL 3 runs again with this hash, and with its given options', async () => {
  const build = `const { createHash } = require('node:crypto')
    require('node:fs').writeFileSync('dist/index.html', createHash('md4').update('a').digest('hex') + process.env.NODE_OPTIONS)`
  const files = { 'package.json': JSON.stringify({ scripts: { build: 'node build.js' } }), 'build.js': build }
  const { failure, url, id } = await deployed({ ...files, 'dist/a': '' }, { NODE_OPTIONS: '--max-old-space-size=200' })
  expect(failure).toBeNull()
  expect(await read(url)).toBe('bde52cb31de33e46245e05fbdbd6fb24--max-old-space-size=200 --openssl-legacy-provider')
  expect(await buildLog(id)).toMatch(
    /ERR_OSSL_EVP_UNSUPPORTED[\s\S]*warning: The build uses a hash .*"engines" in package\.json/,
  )
})

describe('a static site', () => {
  it('is served as Vite built it, with its own page for a missing path', async () => {
    const url = await running(await filesOf('vite-site'), { VITE_AUDIENCE: 'everybody' })
    const page = await read(url)
    expect(page).toContain('<title>everybody</title>')
    const [, source = ''] = /<script type="module" crossorigin src="(\/assets\/[^"]+\.js)">/.exec(page) ?? []
    const script = await fetch(new URL(source, url))
    expect(script.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    const code = await script.text()
    expect(code).toContain('built for ')
    expect(code).toContain('everybody')
    expect(code).not.toContain('left out')
    const [, styles = ''] = /<link rel="stylesheet" crossorigin href="(\/assets\/[^"]+\.css)">/.exec(page) ?? []
    expect(await read(new URL(styles, url).href)).toMatch(/#greeting\s*\{\s*color:\s*(rebeccapurple|#639)/)
    const again = await fetch(script.url, { headers: { 'if-none-match': script.headers.get('etag') ?? '' } })
    expect(again.status).toBe(304)
    const missing = await fetch(new URL('/src/main.js', url))
    expect([missing.status, await missing.text()]).toEqual([404, '<p>not here</p>\n'])
  })
})

describe('a Python app', () => {
  const main = `import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write((sys.prefix + ' ' + os.environ.get('GREETING', '')).encode())
    def log_message(self, *arguments):
        pass
print('listening')
http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()\n`

  it('runs by its Procfile, in a separate environment, with a local package from its requirements', async () => {
    const files = {
      'greeter/__init__.py': '',
      'greeter/__main__.py': main,
      'requirements.txt': './package\n',
      'package/pyproject.toml':
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "empty"\nversion = "1"\n',
      'package/backend.py': `import zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = 'empty-1-py3-none-any.whl'
    with zipfile.ZipFile(directory + '/' + name, 'w') as wheel:
        wheel.writestr('empty.py', '')
        wheel.writestr('empty-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: empty\\nVersion: 1\\n')
        wheel.writestr('empty-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
        wheel.writestr('empty-1.dist-info/RECORD', '')
    return name\n`,
      Procfile: 'web: python -c "import empty" && exec python -m greeter\n',
    }
    const url = await running(files, { GREETING: 'hello' })
    expect(await read(url)).toMatch(/\/source\/\.venv hello$/)
  })
})

describe('a fairlead.json', () => {
  const monorepo = {
    'package.json': JSON.stringify({ scripts: { start: 'node wrong.js' } }),
    'services/api/package.json': JSON.stringify({ scripts: { start: 'tool-of-the-app' } }),
    'services/api/tool/package.json': JSON.stringify({
      name: 'tool',
      version: '1.0.0',
      bin: { 'tool-of-the-app': 'tool.js' },
    }),
    'services/api/tool/tool.js': `#!/usr/bin/env node\n${httpServer("response.end(require('node:path').basename(process.cwd()))")}`,
  }

  it('runs the app of a folder there, with the programs of its packages', async () => {
    const url = await running({
      ...monorepo,
      'fairlead.json': JSON.stringify({ root: 'services/api', start: ['tool-of-the-app'] }),
      'services/api/package.json': JSON.stringify({ dependencies: { tool: 'file:tool' } }),
    })
    expect(await read(url)).toBe('api')
  })
})

it('a silent build is reported repeatedly, with the running command', async () => {
  const { id, project } = await silent
  expect(await buildLog(id, project)).toMatch(/^\$ node build\.js\nStill running node build\.js \(1\d s\)\.\nmade\n/m)
})
