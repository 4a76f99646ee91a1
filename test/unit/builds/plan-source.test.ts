import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { PlanRequest } from '../../../server/src/builds/build-plan.ts'
import { planSource } from '../../../server/src/builds/plan-source.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

type Files = Record<string, string | object>
type Server = Pick<PlanRequest, 'images' | 'before'>

const withoutDocker: Server = { images: false, before: null }

/** Plans a repository with these files. */
async function planOf(files: Files, root: string | null = null, server: Server = withoutDocker) {
  await using directory = await temporaryDirectory()
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory.path, path)), { recursive: true })
    await writeFile(join(directory.path, path), typeof content === 'string' ? content : JSON.stringify(content))
  }
  return await planSource(directory.path, { root, ...server })
}

/** Returns why the files cannot be planned. */
async function failureOf(files: Files, root: string | null = null, server: Server = withoutDocker) {
  const planned = await planOf(files, root, server)
  if (planned.ok) throw new Error(`it was planned as ${planned.plan.kind}`)
  return planned.failure
}

const app = { scripts: { start: 'node .' } }

it.each([
  [
    ['Dockerfile', 'docker-compose.yml'],
    'Dockerfile (which needs Docker: the operator of the server turns it on with FAIRLEAD_RUNTIME=process,docker), docker-compose.yml ("fairlead import compose" reads it)',
  ],
  [['Shop.csproj', 'README.md'], 'Shop.csproj (.NET).'],
  [['build.sbt', 'src/main.scala'], 'build.sbt (Scala), src/.'],
  [['LICENSE', 'main.c'], 'LICENSE, main.c.'],
  [[], 'Fairlead saw no files.'],
])('the error for a repository with %j names the files that were seen', async (names, seen) => {
  const { code, message, suggestions } = await failureOf(Object.fromEntries(names.map((name) => [name, 'x'])))
  expect(code).toBe('not_recognised')
  expect(message).toContain(seen)
  expect(suggestions ?? []).toEqual([])
})

it('suggests folders that hold apps, programs before sites', async () => {
  const { code, message, suggestions } = await failureOf({
    'README.md': '',
    'docker-compose.yml': '',
    'a-site/index.html': '',
    'backend/package.json': app,
    'services/billing/package.json': app,
    'services/billing/public/index.html': '',
    'node_modules/dep/package.json': app,
    'tests/package.json': app,
    'empty/notes.txt': '',
  })
  expect(code).toBe('not_recognised')
  expect(suggestions).toEqual([
    { root: 'backend', kind: 'node' },
    { root: 'services/billing', kind: 'node' },
    { root: 'a-site', kind: 'static' },
  ])
  expect(message).toContain('one of backend (node), services/billing (node), a-site (static)')
})

it.each([
  ['npm', { 'package.json': { workspaces: ['apps/*', 'packages/*'] } }],
  [
    'npm, with a build of everything',
    { 'package.json': { workspaces: ['apps/*'], scripts: { build: 'turbo build' } } },
  ],
  ['pnpm', { 'package.json': { scripts: { build: 'pnpm -r build' } }, 'pnpm-workspace.yaml': 'packages: [apps/*]' }],
  ['Nx', { 'package.json': { scripts: { build: 'nx run-many -t build' } }, 'nx.json': {} }],
])('suggests the apps of a workspace of %s, and no libraries', async (_, top) => {
  const { code, suggestions } = await failureOf({
    ...top,
    'apps/web/package.json': app,
    'apps/api/package.json': app,
    'packages/ui/package.json': { main: 'index.js', scripts: { build: 'tsc' } },
    'packages/ui/index.js': '',
  })
  expect(code).toBe('no_start')
  expect(suggestions).toEqual([
    { root: 'apps/api', kind: 'node' },
    { root: 'apps/web', kind: 'node' },
  ])
})

describe('a package of a workspace', () => {
  /** Returns the folders that are suggested beside an app: the package's folder, if the package counts as an app. */
  async function suggested(manifest: object, more: Files = {}) {
    const { suggestions = [] } = await failureOf({
      'package.json': { workspaces: ['apps/*', 'packages/*'] },
      'apps/web/package.json': app,
      'packages/own/package.json': manifest,
      'packages/own/index.js': '',
      'packages/own/dist/index.js': '',
      ...more,
    })
    return suggestions.map(({ root }) => root)
  }

  const watchers = [
    ...['tsc --watch', 'tsc -b -w --preserveWatchOutput', 'vue-tsc --build --watch', 'tsup --watch', 'tsdown --watch'],
    ...['rollup -c -w', 'rolldown -c --watch', 'vite build --watch', 'swc src -d dist -w', 'unbuild --stub'],
    ...['esbuild src/index.ts --bundle --outdir=dist --watch', 'babel src -d dist --watch', 'microbundle watch'],
    ...['tsdx watch', 'bunchee -w', 'father dev', 'rslib build -w', 'svelte-package -w', 'webpack --watch'],
    ...['bun build src/index.ts --outdir dist --watch', 'parcel watch', 'ng-packagr -p ng-package.json -w'],
    ...['node esbuild.config.mjs --watch', 'nodemon --watch src --exec tsup', 'chokidar "src/**" -c "npm run build"'],
    ...[
      'sass --watch src:dist',
      'tailwindcss -i a.css -o b.css --watch',
      'storybook dev -p 6006',
      'vitest',
      'tsc-watch',
    ],
  ]
  const wrapped = [
    (line: string) => ({ dev: line }),
    (line: string) => ({ dev: `rimraf dist && npx ${line}`, start: 'npm run dev' }),
    (line: string) => ({
      dev: 'concurrently npm:dev:*',
      'dev:js': `cross-env NODE_ENV=development ${line}`,
      'dev:css': 'sass -w a b',
    }),
  ]
  const libraries = watchers.flatMap((line) => wrapped.map((wrap) => [JSON.stringify(wrap(line)), wrap(line)] as const))

  it.each(libraries)('that only watches is no app: %s', async (_, scripts) => {
    expect(await suggested({ main: 'dist/index.js', scripts: { build: 'tsc', ...scripts } })).toEqual(['apps/web'])
  })

  it.each([
    ['that is compiled for other packages', { scripts: { build: 'tsc -p .' } }, {}],
    ['that is compiled and watched', { scripts: { build: 'rimraf dist && tsup', dev: 'tsup --watch' } }, {}],
    [
      'with a development server for itself',
      { exports: './dist/index.js', scripts: { build: 'vite build', dev: 'vite' }, devDependencies: { vite: '7' } },
      { 'packages/own/vite.config.ts': 'export default { build: { lib: { entry: "src/index.ts" } } }' },
    ],
  ])('%s is no app', async (_, manifest, more) => {
    expect(await suggested(manifest, more)).toEqual(['apps/web'])
  })

  it.each([
    [{ build: 'tsc', start: 'node dist/index.js' }],
    [{ build: 'tsc', dev: 'tsx watch src/index.ts' }],
    [{ build: 'tsc', dev: 'nodemon src/index.ts' }],
    [{ build: 'tsup', dev: 'tsup --watch --onSuccess "node dist/index.js"' }],
    [{ build: 'tsc', dev: 'tsc-watch --onSuccess "node dist/index.js"' }],
    [{ build: 'tsc', dev: 'concurrently "tsc -w" "node --watch dist/index.js"' }],
    [{ build: 'vite build', dev: 'vite' }],
    [{ build: 'webpack', dev: 'webpack serve' }],
    [{ build: 'esbuild src/app.ts --outdir=dist', dev: 'esbuild src/app.ts --serve --watch' }],
    [{ build: 'tsc', dev: 'npm run build && node server.js' }],
  ])('that has a start is an app: %j', async (scripts) => {
    const manifest = { main: 'dist/index.js', scripts, devDependencies: { vite: '7', webpack: '5' } }
    expect(await suggested(manifest)).toContain('packages/own')
  })

  it('whose build only copies a site is an app', async () => {
    expect(await suggested({ scripts: { build: 'rimraf dist && cp -r src dist' } })).toContain('packages/own')
  })
})

it('in a workspace that says how it starts is an app', async () => {
  expect(
    await planOf({ 'package.json': { workspaces: ['apps/*'], ...app }, 'apps/web/package.json': app }),
  ).toMatchObject({ ok: true, plan: { kind: 'node', start: { argv: ['node', '.'] } } })
})

it('a given root replaces the root in fairlead.json, with its commands', async () => {
  const files = {
    'fairlead.json': { root: 'web', start: ['node', 'web.js'], health: '/web' },
    'web/package.json': app,
    'web/web.js': '',
    'api/package.json': app,
  }
  expect(await planOf(files, 'web')).toMatchObject({ plan: { kind: 'command', health: '/web' } })
  const other = await planOf(files, 'api')
  expect(other).toMatchObject({ plan: { kind: 'node', start: { argv: ['fairlead-in', 'api', 'node', '.'] } } })
  expect(other).not.toHaveProperty('plan.health')
})

it('the error names a root that is no folder', async () => {
  expect(await failureOf({ 'package.json': app }, 'nowhere')).toMatchObject({
    code: 'unknown_root',
    message: expect.stringContaining('"nowhere"'),
  })
})

it('suggests an app below the given root', async () => {
  const { suggestions } = await failureOf({ 'a/b/package.json': app, 'c/package.json': app }, 'a')
  expect(suggestions).toEqual([{ root: 'a/b', kind: 'node' }])
})

it('does not follow links, and searches a large repository only in part', async () => {
  await using directory = await temporaryDirectory()
  await symlink('/usr', join(directory.path, 'usr'))
  for (let index = 0; index < 200; index += 1) {
    const folder = join(directory.path, `app-${String(index).padStart(3, '0')}`)
    await mkdir(folder)
    await writeFile(join(folder, 'package.json'), JSON.stringify(app))
  }
  const planned = await planSource(directory.path, { root: null, ...withoutDocker })
  const { suggestions = [] } = planned.ok ? {} : planned.failure
  expect(suggestions).toHaveLength(20)
  expect(suggestions.map(({ root }) => root)).not.toContain('usr')
})

it.each([
  ['node', { 'package.json': { scripts: { start: 'node dist/a.js' } }, 'b.js': '' }, 'The file "dist/a.js"'],
  ['node in a folder', { 'package.json': { scripts: { start: 'node src/b.js' } }, 'src/a.js': '' }, '"src/b.js"'],
  ['bun', { 'fairlead.json': { start: ['bun', 'run', 'a.ts'] }, 'b.ts': '' }, 'The file "a.ts"'],
  ['a site', { 'fairlead.json': { start: ['fairlead-static', '--spa', 'dist'] }, 'a.html': '' }, 'The folder "dist"'],
])('refuses a start of %s whose file is missing and not built', async (_, files, named) => {
  const { code, message } = await failureOf(files)
  expect(code).toBe('no_start')
  expect(message).toContain(named)
  expect(message).toContain('nothing builds it')
})

it.each([
  ['a build', { 'package.json': { scripts: { start: 'node dist/a.js', build: 'tsc' } } }],
  ["the owner's build", { 'fairlead.json': { build: ['make'], start: ['node', 'a.js'] } }],
  ['an installation', { 'package.json': { scripts: { start: 'node a.js', postinstall: 'node make.js' } } }],
  ['packages', { 'fairlead.json': { start: ['node', 'node_modules/serve/build/main.js'] }, 'node_modules/.keep': '' }],
  ['the repository', { 'fairlead.json': { start: ['node', 'src/a.js'] }, 'src/a.js': '' }],
])('plans a start whose file may come from %s', async (_, files) => {
  expect(await planOf(files)).toMatchObject({ ok: true })
})
