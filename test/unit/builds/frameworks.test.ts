import { readFile } from 'node:fs/promises'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findDevelopmentServer } from '../../../server/src/builds/detectors/development-servers.ts'
import { frameworks, serverFrameworks } from '../../../server/src/builds/detectors/node/frameworks.ts'
import { programsOf } from '../../../server/src/builds/detectors/shell-lines.ts'
import { type Files, failure, planned, planOf, start } from '../../harness/builds/planned.ts'

/** The candidate starts after the build, as lines. */
function outputs(files: Files): string[] {
  const result = planOf(files)
  if (!result.ok) throw new Error(result.failure.message)
  return (result.plan.outputs ?? []).map((output) => output.start.argv.join(' '))
}

const notes = (files: Files): string => {
  const result = planOf(files)
  return result.ok ? (result.plan.notes ?? []).join(' ') : ''
}

const app = (script: string | undefined, packages: readonly string[], more: object = { build: 'b' }) => ({
  scripts: { ...(script === undefined ? {} : { start: script }), ...more },
  devDependencies: Object.fromEntries(packages.map((name) => [name, '1'])),
})

const toolOf = (line: string, scripts: Readonly<Record<string, string>> = {}) =>
  findDevelopmentServer(programsOf(line, new Map(Object.entries(scripts))))?.tool ?? null

describe('a line', () => {
  test.each([
    ['react-scripts start'],
    ['vite'],
    ['vite --host --port 3000'],
    ['vite dev'],
    ['vite preview --port $PORT'],
    ['astro dev'],
    ['next dev --turbo'],
    ['next -p 3000'],
    ['ng serve --host 0.0.0.0'],
    ['vue-cli-service serve'],
    ['gatsby develop'],
    ['parcel index.html'],
    ['webpack serve --mode development'],
    ['webpack-dev-server --open'],
    ['nuxt dev'],
    ['NODE_ENV=development vite'],
    ['cross-env BROWSER=none PORT=3000 react-scripts start'],
    ['npx -y vite'],
    ['npm exec -- vite'],
    ['yarn vite'],
    ['pnpm exec vite dev'],
    ['node node_modules/vite/bin/vite.js'],
    ['./node_modules/.bin/vite'],
    ['dotenv -e .env.local -- next dev'],
    ['tsc && vite'],
    ['rimraf dist; (vite)'],
    ['sh -c "vite --host"'],
    ['concurrently "node server.js" "vite"'],
    ['turbo run dev'],
    ['nodemon'],
    ['node --watch server.js'],
    ['node -r dotenv/config --inspect=0.0.0.0 server.js'],
    ['bun --hot index.ts'],
    ['bun run --watch index.ts'],
    ['tsx watch src/index.ts'],
    ['flask run --debug'],
    ['flask --app main run'],
    ['python -m flask run'],
    ['python3 manage.py runserver 0.0.0.0:$PORT'],
    ['poetry run uvicorn main:app --reload'],
    ['fastapi dev main.py'],
    ['storybook dev -p 6006'],
  ])('%j is for development', (line) => {
    expect(toolOf(line)).not.toBeNull()
  })

  test.each([
    ['node server.js'],
    ['node dist/watch.js --watch'],
    ['next start -p $PORT'],
    ['nuxt start'],
    ['serve -s build'],
    ['vite build && node server.js'],
    ['react-router-serve ./build/server/index.js'],
    ['remix-serve build'],
    ['nest build && node dist/main'],
    ['strapi start'],
    ['gunicorn shop.wsgi'],
    ['uvicorn main:app --host 0.0.0.0'],
    ['flask db upgrade && gunicorn app:app'],
    ['python manage.py migrate'],
    ['echo vite'],
    ['echo "a && vite"'],
    ['# vite'],
    ['fastify start -l info app.js'],
    ['cd web && npm start'],
    ['npm --prefix web run dev'],
  ])('%j is not', (line) => {
    expect(toolOf(line, { start: 'vite', dev: 'vite' })).toBeNull()
  })

  test.each([
    ['npm run dev', { dev: 'vite' }],
    ['yarn dev', { dev: 'npm-run-all lint serve', lint: 'eslint', serve: 'vite' }],
    ['pnpm dev', { dev: 'run-p dev:*', 'dev:web': 'vite' }],
    ['node --run dev', { dev: 'vite' }],
    ['concurrently npm:dev:*', { 'dev:web': 'vite' }],
    ['npm start', { start: 'npm run a', a: 'npm run b', b: 'vite' }],
  ])('%j is followed through scripts', (line, scripts) => {
    expect(toolOf(line, scripts)).toBe('vite')
  })

  test('may hold anything, and scripts may lead in circles', () => {
    const scripts = fc.dictionary(fc.constantFrom('start', 'dev', 'a'), fc.oneof(fc.string(), fc.constant('npm run a')))
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), scripts, (line, given) => {
        findDevelopmentServer(programsOf(line, new Map(Object.entries(given))))
        for (const program of programsOf(line, new Map())) {
          expect(program.from).toBeLessThanOrEqual(program.to)
          expect(program.to).toBeLessThanOrEqual(program.line.length)
        }
      }),
      { numRuns: 2000 },
    )
  })
})

describe('a start script for development', () => {
  test.each([
    ['react-scripts start', ['react-scripts'], ['fairlead-static --spa build']],
    ['vite', ['vite'], ['fairlead-static --spa dist', 'fairlead-static --spa build']],
    ['astro dev', ['astro', 'vite'], ['node dist/server/entry.mjs', 'fairlead-static dist']],
    ['next dev', ['next'], ['fairlead-static out', 'next start']],
    ['gatsby develop', ['gatsby'], ['fairlead-static public']],
    ['docusaurus start', ['@docusaurus/core'], ['fairlead-static build']],
    ['vue-cli-service serve', ['@vue/cli-service'], ['fairlead-static --spa dist']],
    ['parcel src/index.html', ['parcel'], ['fairlead-static --spa dist']],
    ['ember serve', ['ember-cli'], ['fairlead-static --spa dist']],
    ['nest start', ['@nestjs/core'], ['node dist/main.js', 'node dist/src/main.js', 'node dist/main.mjs']],
    [
      'react-router dev',
      ['@react-router/dev', '@react-router/serve', 'vite'],
      ['react-router-serve ./build/server/index.js', 'fairlead-static --spa build/client'],
    ],
  ])('%j is replaced by a start of the build’s output', (script, packages, expected) => {
    const files = { 'package.json': app(script, packages) }
    expect(outputs(files)).toEqual(expected)
    expect(planned(files).build).toEqual(['npm install --include=dev', 'npm run build'])
    expect(notes(files)).toMatch(/is for development .*After the build.*fairlead\.json/)
  })

  test('builds by its framework where no script builds', () => {
    expect(planned({ 'package.json': app('vite', ['vite'], {}) }).build).toEqual([
      'npm install --include=dev',
      'vite build',
    ])
  })

  test.each([
    ['nodemon server.js', ['node', 'server.js']],
    ['nodemon -w src --ext js,json -- bin/www', ['node', 'bin/www']],
    ['supervisor ./bin/www', ['node', './bin/www']],
    ['nodemon --inspect ./index', ['node', './index']],
    ['cross-env A=1 nodemon app.js', ['/bin/sh', '-c', 'cross-env A=1 node app.js']],
    ['nodemon --exec "node --import tsx" src/a.ts', ['node', '--import', 'tsx', 'src/a.ts']],
    ['node --watch --title=a a.js', ['node', '--title=a', 'a.js']],
    ['node --inspect a.js', ['node', 'a.js']],
  ])('%j starts %j', (script, argv) => {
    expect(planned({ 'package.json': start(script) }).start).toEqual(argv)
  })

  test('starts the watched program directly, if the app contains it', () => {
    const files = {
      'package.json': { ...start('ts-node-dev --respawn src/index.ts'), devDependencies: { 'ts-node': '1' } },
    }
    expect(planned(files)).toMatchObject({
      build: ['npm install --include=dev'],
      start: ['/bin/sh', '-c', 'ts-node src/index.ts'],
    })
    expect(failure({ 'package.json': start('ts-node-dev src/index.ts') })?.code).toBe('development_server')
  })

  test('in a "dev" script starts the program, unless something builds', () => {
    const scripts = { dev: 'nodemon src/server.js' }
    expect(planned({ 'package.json': { scripts } }).start).toEqual(['node', 'src/server.js'])
    expect(notes({ 'package.json': { scripts } })).toContain('no "start" script')
    expect(planned({ 'package.json': { scripts: { ...scripts, build: 'b' } } }).kind).toBe('static')
    expect(failure({ 'package.json': { scripts: { dev: 'tsc-watch --onSuccess x' } } })?.code).toBe('no_start')
  })

  test("gives way to the owner's script for production", () => {
    const scripts = { start: 'nest start --watch', 'start:prod': 'node dist/main', build: 'nest build' }
    const files = { 'package.json': { scripts, dependencies: { '@nestjs/core': '11' } } }
    expect(planned(files).start).toEqual(['node', 'dist/main'])
    expect(notes(files)).toContain('"start:prod" runs instead')
  })

  test('without a production start is refused, and index.html is no site', () => {
    const refused = failure({ 'package.json': start('webpack serve'), 'index.html': '' })
    expect(refused).toMatchObject({ code: 'development_server', message: expect.stringContaining('"build" script') })
  })

  test('that only reloads a site serves the site', () => {
    const files = { 'package.json': start('live-server'), 'index.html': '' }
    expect(planned(files).start).toEqual(['fairlead-static', '.'])
  })

  test.each([
    ['serve public -l 5000 -s & rollup -w -c', ['fairlead-static', '--spa', 'public']],
    ['rollup -w -c & sirv --dev public/', ['fairlead-static', 'public']],
    ['webpack --watch & http-server -s -p 80 dist', ['fairlead-static', 'dist']],
    ['serve -s & rollup -w', ['node', 'public/index.js']],
  ])('beside a server of files gives way to the site: %j', (script, argv) => {
    const manifest = { ...start(script, { build: 'rollup -c' }), main: 'public/index.js' }
    expect(planned({ 'package.json': manifest, 'public/index.html': '' }).start).toEqual(argv)
  })

  test('as a build that never ends is refused', () => {
    const files = { 'package.json': start('node a.js', { build: 'webpack --watch' }) }
    expect(failure(files)?.code).toBe('development_server')
  })
})

describe('without a start script', () => {
  test.each([
    [['nuxt'], 'node .output/server/index.mjs'],
    [['@sveltejs/kit', 'vite'], 'node build'],
    [['astro'], 'node dist/server/entry.mjs'],
    [['vite'], 'fairlead-static --spa dist'],
  ])('%j starts from the build', (packages, first) => {
    expect(outputs({ 'package.json': app(undefined, packages) })[0]).toBe(first)
  })

  test('starts a server beside a bundler', () => {
    const files = { 'package.json': app(undefined, ['vite']), 'server.js': '' }
    expect(planned(files).start).toEqual(['node', 'server.js'])
  })

  test('uses the main file that npm init names only when it exists', () => {
    const files = { 'package.json': { ...app(undefined, ['parcel']), main: 'index.js' } }
    expect(outputs(files)).toEqual(['fairlead-static --spa dist', 'node index.js'])
    expect(planned({ ...files, 'index.js': '' }).start).toEqual(['node', 'index.js'])
  })
})

describe('configurations', () => {
  test('name the folders of the output', () => {
    const angular = { projects: { shop: { projectType: 'application', architect: {} } } }
    expect(outputs({ 'package.json': app('ng serve', ['@angular/core']), 'angular.json': angular })).toContain(
      'fairlead-static --spa dist/shop/browser',
    )
    const vite = { 'package.json': app('vite', ['vite']), 'vite.config.ts': "build: { outDir: './out/web' }" }
    expect(outputs(vite)[0]).toBe('fairlead-static --spa out/web')
    const outside = { ...vite, 'vite.config.ts': "build: { outDir: '../x' }" }
    expect(outputs(outside)[0]).toBe('fairlead-static --spa dist')
    const press = { 'package.json': app(undefined, ['vitepress'], { build: 'vitepress build guide' }) }
    expect(outputs(press)[0]).toBe('fairlead-static guide/.vitepress/dist')
  })

  test('of React Router without a runtime server produce a site', () => {
    const packages = ['@react-router/dev', '@react-router/serve']
    const files = { 'package.json': app('react-router dev', packages), 'react-router.config.ts': 'ssr: false' }
    expect(outputs(files)).toEqual(['fairlead-static --spa build/client'])
  })

  test('of SvelteKit set what its server and adapter-auto need', () => {
    const result = planOf({ 'package.json': app(undefined, ['@sveltejs/kit', '@sveltejs/adapter-auto']) })
    expect(result.ok && result.plan.build.at(-1)?.env).toMatchObject({ GCP_BUILDPACKS: '1' })
    expect(result.ok && result.plan.outputs?.[0]?.start.env).toMatchObject({ PROTOCOL_HEADER: 'x-forwarded-proto' })
  })

  test('of a subfolder count from the subfolder', () => {
    const result = planOf({ 'fairlead.json': { root: 'web' }, 'web/package.json': app('vite', ['vite']) })
    expect(result.ok && result.plan.outputs?.[0]).toMatchObject({
      paths: ['web/dist/index.html', 'web/dist/200.html'],
      start: { argv: ['fairlead-in', 'web', 'fairlead-static', '--spa', 'dist'] },
    })
  })
})

describe('a development line of the owner', () => {
  test.each([
    [
      'fairlead.json',
      { 'fairlead.json': { start: ['npm', 'run', 'dev'] }, 'package.json': { scripts: { dev: 'vite' } } },
    ],
    ['fairlead.json', { 'fairlead.json': { start: ['flask', 'run', '--debug'] } }],
    ['Procfile', { Procfile: 'web: flask run --debug' }],
    [
      'Procfile',
      { Procfile: 'web: npm run dev', 'package.json': { scripts: { dev: 'webpack serve' } }, 'index.html': '' },
    ],
  ])('in %s is refused: %j', (where, files) => {
    expect(failure(files)).toMatchObject({ code: 'development_server', message: expect.stringContaining(where) })
  })

  test('in a Procfile gives way to the production script of package.json, and its release line stays', () => {
    const files = { Procfile: 'web: npm start\nrelease: node migrate.js', 'package.json': app('vite', ['vite']) }
    expect(outputs(files)[0]).toBe('fairlead-static --spa dist')
    const result = planOf(files)
    expect(result.ok && result.plan.release?.argv).toEqual(['/bin/sh', '-c', 'node migrate.js'])
  })

  test.each([
    ['nodemon server.js', 'node server.js'],
    ['uvicorn main:app --host 0.0.0.0 --reload --port $PORT', 'uvicorn main:app --host 0.0.0.0 --port $PORT'],
    ['python migrate.py && node --watch "my app.js"', 'python migrate.py && node "my app.js"'],
  ])('in a Procfile, %j runs without the development parts', (web, line) => {
    expect(planned({ Procfile: `web: ${web}` }).start).toEqual(['/bin/sh', '-c', line])
    expect(notes({ Procfile: `web: ${web}` })).toContain('runs instead')
  })
})

describe('a member of a workspace', () => {
  const member = {
    'fairlead.json': { root: 'apps/web' },
    'apps/web/package.json': { name: 'web', ...start('node a.js', { build: 'b' }) },
  }

  test('is built after the members that it uses, by the tool of the workspace', () => {
    const turbo = {
      ...member,
      'turbo.json': {},
      'package.json': { devDependencies: { turbo: '2' } },
      'package-lock.json': '',
    }
    expect(planned(turbo).build.at(-1)).toBe('fairlead-in apps/web turbo run build --filter=web')
    const pnpm = { ...member, 'package.json': {}, 'pnpm-lock.yaml': '' }
    expect(planned(pnpm).build.at(-1)).toBe('fairlead-in apps/web pnpm --filter=web... run build')
    const npm = { ...member, 'package.json': {}, 'package-lock.json': '' }
    expect(planned(npm).build.at(-1)).toBe('fairlead-in apps/web npm run build')
  })
})

test('the docs list all frameworks in the order of detection', async () => {
  const docs = await readFile(new URL('../../../docs/apps.md', import.meta.url), 'utf8')
  const [, table = ''] = docs.split('| framework | after the build |')
  const rows = table.split('\n').filter((line) => line.startsWith('| '))
  const named = rows.flatMap((row) => (row.split(' | ')[0] ?? '').replace('| ', '').split(', '))
  const known = new Set(frameworks.map(({ name }) => name))
  expect(named.filter((name) => known.has(name)).sort()).toEqual([...known].sort())
  expect(named.slice(0, serverFrameworks.length)).toEqual(serverFrameworks.map(({ name }) => name))
})
