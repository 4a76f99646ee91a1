import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { repository } from '../../harness/repository.ts'
import { fixturePath } from '../../harness/runtimes/support.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let projectId: string
beforeAll(async () => {
  server = await testServer()
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

const read = async (url: string): Promise<string> => (await fetch(url)).text()

const httpServer = (answer: string) =>
  `require('node:http').createServer((request, response) => { ${answer} }).listen(process.env.PORT)\n`

describe('a Node app', () => {
  it('runs with the lock file of npm', async () => {
    expect(await read(await running(await filesOf('express')))).toBe('Hello from Express')
  })

  it('runs in a workspace of pnpm', async () => {
    const url = await running(await filesOf('pnpm-workspace'))
    expect(await read(url)).toBe('Hello from pnpm, an hour has 3600000 ms')
  })

  it('runs with the lock file of Yarn 1', async () => {
    const url = await running(await filesOf('yarn-classic'))
    expect(await read(url)).toBe('Hello from Yarn 1, an hour has 3600000 ms')
  })

  it('runs with the lock file of Yarn 4, without node_modules', async () => {
    const url = await running(await filesOf('yarn-modern'))
    expect(await read(url)).toBe('Hello from Yarn 4, an hour has 3600000 ms')
  })

  it.each([
    ['express', 'package.json', '"express": "^5.1.0"', '"ms": "2.1.2", "express": "^5.1.0"', 'npm ci'],
    ['yarn-classic', 'package.json', '2.1.3', '2.1.2', 'yarn install --frozen-lockfile'],
    ['yarn-modern', 'package.json', '2.1.3', '2.1.2', 'yarn install --immutable'],
    ['pnpm-workspace', 'apps/web/package.json', '2.1.3', '2.1.2', 'pnpm install --frozen-lockfile'],
  ])(
    'runs, with a warning, when the lock file of %s does not fit its package.json',
    async (fixture, file, from, to, first) => {
      const files = await filesOf(fixture)
      const changed = { ...files, [file]: (files[file] ?? '').replace(from, to) }
      const { failure, status, url, id } = await deployed(changed)
      expect({ failure, status }).toEqual({ failure: null, status: 'running' })
      expect(await read(url)).toContain('Hello from')
      const params = { project_id: projectId, id }
      const log = await (await server.client.deployments.logs({ params, query: { stream: 'build' } })).text()
      expect(log).toContain(first)
      expect(log).toMatch(/warning: The lock file does not fit package\.json, .*commit the lock file that it writes/)
    },
  )
})

describe('a build that needs a hash of before OpenSSL 3', () => {
  const build = `const { createHash } = require('node:crypto')
    require('node:fs').writeFileSync('dist/index.html', createHash('md4').update('a').digest('hex') + process.env.NODE_OPTIONS)`
  const files = { 'package.json': JSON.stringify({ scripts: { build: 'node build.js' } }), 'build.js': build }

  it.each([{}, { NODE_OPTIONS: '--max-old-space-size=200' }])('runs again with it: %j', async (variables) => {
    const { failure, url, id } = await deployed({ ...files, 'dist/a': '' }, variables)
    expect(failure).toBeNull()
    expect(await read(url)).toMatch(
      /^bde52cb31de33e46245e05fbdbd6fb24--max-old-space-size=\d+ --openssl-legacy-provider$/,
    )
    const params = { project_id: projectId, id }
    const log = await (await server.client.deployments.logs({ params, query: { stream: 'build' } })).text()
    expect(log).toMatch(/ERR_OSSL_EVP_UNSUPPORTED[\s\S]*warning: The build uses a hash .*"engines" in package\.json/)
  })
})

describe('a static site', () => {
  it('is served as Vite built it, with its own page for a path that is not there', async () => {
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

  it('fails and names the folders that were searched when its build makes no page', async () => {
    const { failure } = await deployed({
      'package.json': JSON.stringify({ scripts: { build: 'node build.js' } }),
      'build.js': '',
    })
    expect(failure).toMatchObject({ stage: 'start', code: 'app_exited' })
    expect(failure?.message).toContain('The build made no index.html in dist/, build/, out/, public/')
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

  it('runs in an environment of its own without dependencies', async () => {
    const url = await running({ 'main.py': main, 'requirements.txt': '# nothing\n' }, { GREETING: 'hello' })
    expect(await read(url)).toMatch(/\/source\/\.venv hello$/)
  })

  it('that ends by itself is told so', async () => {
    const { failure } = await deployed({ 'main.py': 'class App:\n    pass\n\napp = App()\n' })
    expect(failure).toMatchObject({ stage: 'start', code: 'app_exited' })
    expect(failure?.message).toContain('ended with code 0 without listening')
  })

  it('runs by its Procfile with a local package that its requirements name', async () => {
    const url = await running({
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
    })
    expect(await read(url)).toContain('/source/.venv')
  })
})

describe('a Procfile with a release step', () => {
  const app = (release: string) => ({
    Procfile: `release: ${release}\nweb: node server.js\n`,
    'server.js': httpServer("response.end(require('node:fs').readFileSync('migrated'))"),
  })

  it('runs that step with the variables before the app', async () => {
    const url = await running(app('printf %s "$SCHEMA" > migrated'), { SCHEMA: 'version 7' })
    expect(await read(url)).toBe('version 7')
  })

  it('fails when that step fails, and the earlier release goes on', async () => {
    await using source = await repository(app('echo one > migrated'))
    const first = await deployAndSettle(server.client, projectId, { name: 'released', git_url: source.url })
    await source.commit(app('echo no such table && exit 3'))
    const second = await deployAndSettle(server.client, projectId, { name: 'released', git_url: source.url })
    expect(second.failure).toMatchObject({ stage: 'build', code: 'release_failed' })
    expect(second.failure?.message).toContain('no such table')
    expect(await read(first.url)).toBe('one\n')
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

  it('makes the app of a folder run there, with the programs of its packages', async () => {
    const url = await running({
      ...monorepo,
      'fairlead.json': JSON.stringify({ root: 'services/api', start: ['tool-of-the-app'] }),
      'services/api/package.json': JSON.stringify({ dependencies: { tool: 'file:tool' } }),
    })
    expect(await read(url)).toBe('api')
  })

  it('has its commands run without a shell', async () => {
    const url = await running({
      'fairlead.json': JSON.stringify({
        build: ['node', '-e', "fs.writeFileSync('made', process.argv[1])", '$HOME && echo'],
        start: ['node', 'server.js'],
      }),
      'server.js': httpServer("response.end(require('node:fs').readFileSync('made'))"),
    })
    expect(await read(url)).toBe('$HOME && echo')
  })

  it('names the path that tells whether the app is ready', async () => {
    const answers = (path: string) =>
      httpServer(`response.statusCode = request.url === '${path}' ? 204 : 500; response.end()`)
    const settings = { 'fairlead.json': JSON.stringify({ health: '/ready?deep=1' }), 'package.json': '{}' }
    await running({ ...settings, 'server.js': answers('/ready?deep=1') })
  })

  it('fails the deployment at the plan and names the key when it has a mistake', async () => {
    const { failure } = await deployed({ 'fairlead.json': '{"start":"node server.js"}', 'server.js': '' })
    expect(failure).toMatchObject({ stage: 'plan', code: 'invalid_fairlead_json' })
    expect(failure?.message).toContain('"start" must be a list of words')
  })
})

it('a build downloads nothing again that the build of an earlier release downloaded', async () => {
  await using app = await repository(await filesOf('pnpm-workspace'))
  const request = { name: 'cached', git_url: app.url }
  await deployAndSettle(server.client, projectId, request)
  const next = await deployAndSettle(server.client, projectId, request)
  const params = { project_id: projectId, id: next.id }
  const log = await server.client.deployments.logs({ params, query: { stream: 'build' } })
  expect(await log.text()).toMatch(/reused 1, downloaded 0/)
})
