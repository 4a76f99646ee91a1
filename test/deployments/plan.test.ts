import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { fairleadJson } from '../../server/src/builds/detectors/fairlead-json.ts'
import { parseProcfile } from '../../server/src/builds/detectors/procfile.ts'
import type { SourceTree } from '../../server/src/builds/detectors/tree.ts'
import { findJsonError } from '../../server/src/builds/package-json.ts'
import { planRelease } from '../../server/src/builds/plan.ts'
import { readSourceTree } from '../../server/src/builds/read-tree.ts'

const SERVER = { nodeVersion: '24.21.0', hasPython: true }

/** A tree of these files; an object is a package.json in the making, `null` a file that cannot be read. */
function tree(files: Record<string, string | object | null>): SourceTree {
  return {
    has: (path) => Object.keys(files).some((name) => name === path || name.startsWith(`${path}/`)),
    read: (path) => {
      const content = Object.hasOwn(files, path) ? files[path] : undefined
      return typeof content === 'object' && content !== null ? JSON.stringify(content) : (content ?? undefined)
    },
  }
}

function planned(files: Record<string, string | object | null>) {
  const result = planRelease(tree(files), SERVER)
  if (!result.ok) throw new Error(`${result.failure.code}: ${result.failure.message}`)
  const { kind, build, start } = result.plan
  return { kind, build: build.map(({ argv }) => argv.join(' ')), start: start.argv }
}

function failure(files: Record<string, string | object | null>) {
  const result = planRelease(tree(files), SERVER)
  return result.ok ? null : result.failure
}

const start = (script: string, more: object = {}) => ({ scripts: { start: script, ...more } })

describe('a Procfile', () => {
  test('wins, and its web line goes to a shell as it is', () => {
    expect(planned({ Procfile: 'web: serve -p $PORT && true\n', 'index.html': '', 'server.js': '' })).toEqual({
      kind: 'procfile',
      build: [],
      start: ['/bin/sh', '-c', 'serve -p $PORT && true'],
    })
  })

  test('is preceded by the install and the build of a package.json', () => {
    expect(
      planned({ Procfile: 'web: run', 'package.json': start('node x.js', { build: 'tsc' }), 'package-lock.json': '' }),
    ).toEqual({ kind: 'procfile', build: ['npm ci --include=dev', 'npm run build'], start: ['/bin/sh', '-c', 'run'] })
  })

  test.each([
    ['# web: no\n\n  \nweb: a', 'a'],
    ['worker: w\r\nweb:  a b  \r\n', 'a b'],
    ['\uFEFFweb: a', 'a'],
    ['web : a', 'a'],
    ['web: echo "x: y"', 'echo "x: y"'],
    ['web: old\nweb: new', 'new'],
    ['nonsense\nweb: a', 'a'],
    ['webs: a', undefined],
    ['my-web: a', undefined],
    ['web:', undefined],
    ['web:   \nworker: w', undefined],
    ['', undefined],
  ])('%j has the web command %j', (text, command) => {
    expect(parseProcfile(text).get('web')).toBe(command)
  })

  test('without a web line is an error that says so', () => {
    expect(failure({ Procfile: 'worker: w', 'index.html': '' })).toMatchObject({
      code: 'invalid_procfile',
      message: expect.stringContaining('"web" process'),
    })
  })
})

describe('a Node app', () => {
  test.each([
    ['locked', { 'package.json': start('node a.js'), 'package-lock.json': '' }, ['npm ci --omit=dev']],
    ['shrinkwrapped', { 'package.json': start('node a.js'), 'npm-shrinkwrap.json': '' }, ['npm ci --omit=dev']],
    [
      'with dependencies',
      { 'package.json': { ...start('node a.js'), dependencies: { a: '1' } } },
      ['npm install --omit=dev'],
    ],
    [
      'with development dependencies',
      { 'package.json': { ...start('x'), devDependencies: { a: '1' } } },
      ['npm install --omit=dev'],
    ],
    ['with workspaces', { 'package.json': { ...start('x'), workspaces: ['a'] } }, ['npm install --omit=dev']],
    [
      'with a pnpm lock file',
      { 'package.json': { ...start('x'), dependencies: { a: '1' } }, 'pnpm-lock.yaml': '' },
      ['pnpm install --frozen-lockfile --prod=true'],
    ],
    [
      'with a yarn lock file',
      { 'package.json': { ...start('x'), dependencies: { a: '1' } }, 'yarn.lock': '# yarn lockfile v1\n' },
      ['yarn install --frozen-lockfile --non-interactive --production=true'],
    ],
    [
      'with the lock file of a later yarn and a build',
      { 'package.json': start('x', { build: 'b' }), 'yarn.lock': '# generated\n\n__metadata:\n  version: 8\n' },
      ['yarn install --immutable', 'yarn run build'],
    ],
    [
      'with the lock file of yarn 2 or 3',
      { 'package.json': start('x'), 'yarn.lock': '__metadata:\n  version: 6\n' },
      ['yarn install --no-immutable'],
    ],
    [
      'with a pnpm lock file and a build',
      { 'package.json': start('x', { build: 'b' }), 'pnpm-lock.yaml': '' },
      ['pnpm install --frozen-lockfile --prod=false', 'pnpm run build'],
    ],
    [
      'with several lock files, one of them named,',
      { 'package.json': { ...start('x'), packageManager: 'yarn@1.22.22' }, 'package-lock.json': '', 'yarn.lock': '' },
      ['yarn install --frozen-lockfile --non-interactive --production=true'],
    ],
    [
      'with several lock files',
      { 'package.json': start('x'), 'package-lock.json': '', 'pnpm-lock.yaml': '', 'yarn.lock': '' },
      ['npm ci --omit=dev'],
    ],
    [
      'without a lock file that names pnpm',
      { 'package.json': { ...start('x'), packageManager: 'pnpm@10.1.0', dependencies: { a: '1' } } },
      ['pnpm install --prod=true'],
    ],
    [
      'without a lock file that names a later yarn',
      { 'package.json': { ...start('x'), packageManager: 'yarn@4.1.0', dependencies: { a: '1' } } },
      ['yarn install --no-immutable'],
    ],
    [
      'that names something else',
      { 'package.json': { ...start('x'), packageManager: 'bun@1', dependencies: { a: '1' } } },
      ['npm install --omit=dev'],
    ],
    ['with empty dependencies', { 'package.json': { ...start('x'), dependencies: {} } }, []],
    ['without dependencies', { 'package.json': start('node a.js') }, []],
    [
      'with a build',
      { 'package.json': { ...start('x', { build: 'b' }), dependencies: { a: '1' } } },
      ['npm install --include=dev', 'npm run build'],
    ],
    ['with a build alone', { 'package.json': start('x', { build: 'b' }) }, ['npm run build']],
  ])('%s is built so', (_, files, build) => {
    expect(planned(files).build).toEqual(build)
  })

  test.each([
    ['node server.js', ['node', 'server.js']],
    [
      '  node   --enable-source-maps\tdist/main.js --name=a@b ',
      ['node', '--enable-source-maps', 'dist/main.js', '--name=a@b'],
    ],
    ['node', ['npm', 'start']],
    ['node server.js &', ['npm', 'start']],
    ['node server.js > log', ['npm', 'start']],
    ['node "my server.js"', ['npm', 'start']],
    ['node $MAIN', ['npm', 'start']],
    ['node *.js', ['npm', 'start']],
    ['node ~/x.js', ['npm', 'start']],
    ['node a.js\nnode b.js', ['npm', 'start']],
    ['NODE_ENV=x node server.js', ['npm', 'start']],
    ['nodemon server.js', ['npm', 'start']],
    ['next start', ['npm', 'start']],
  ])('with the start script %j runs %j', (script, argv) => {
    expect(planned({ 'package.json': start(script) }).start).toEqual(argv)
  })

  test.each([
    ['a prestart script', { 'package.json': start('node a.js', { prestart: 'x' }) }],
    ['a poststart script', { 'package.json': start('node a.js', { poststart: 'x' }) }],
    ['settings for its scripts', { 'package.json': { ...start('node a.js'), config: { port: 1 } } }],
    ['a Node of its own', { 'package.json': { ...start('node a.js'), dependencies: { node: '20' } } }],
    ['options for Node in .npmrc', { 'package.json': start('node a.js'), '.npmrc': 'a=b\nnode-options=--no-warnings' }],
    ['a shell in .npmrc', { 'package.json': start('node a.js'), '.npmrc': 'script-shell=bash' }],
    ['an .npmrc that cannot be read', { 'package.json': start('node a.js'), '.npmrc': null }],
  ])('with %s starts through npm', (_, files) => {
    expect(planned(files).start).toEqual(['npm', 'start'])
  })

  test('with an .npmrc that leaves scripts alone starts directly', () => {
    expect(planned({ 'package.json': start('node a.js'), '.npmrc': 'registry=x' }).start).toEqual(['node', 'a.js'])
  })

  test('that starts directly is told its name and version as npm would', () => {
    const result = planRelease(tree({ 'package.json': { ...start('node a.js'), name: 'n', version: '1.2.3' } }), SERVER)
    expect(result.ok && result.plan.start.env).toEqual({
      npm_lifecycle_event: 'start',
      npm_package_name: 'n',
      npm_package_version: '1.2.3',
    })
  })

  test.each([
    [{ 'package.json': { main: 'app.js' }, 'app.js': '', 'server.js': '' }, ['node', 'app.js']],
    [{ 'package.json': { main: './app' }, 'app.js': '' }, ['node', 'app']],
    [{ 'package.json': { main: 'src/app.js' }, src: '' }, ['node', 'src/app.js']],
    [{ 'package.json': { main: 'out/app.js', scripts: { build: 'tsc' } } }, ['node', 'out/app.js']],
    [{ 'package.json': { main: 'index.js' }, 'server.js': '' }, ['node', 'server.js']],
    [{ 'package.json': { main: '../x.js' }, 'server.js': '' }, ['node', 'server.js']],
    [{ 'package.json': { main: '--eval=1' }, '--eval=1': '', 'server.js': '' }, ['node', 'server.js']],
    [{ 'package.json': {}, 'server.js': '', 'index.html': '' }, ['node', 'server.js']],
  ])('without a start script: %j runs %j', (files, argv) => {
    expect(planned(files).start).toEqual(argv)
  })

  test('that does not say how it starts is an error that says what to add', () => {
    expect(failure({ 'package.json': {} })).toMatchObject({
      code: 'no_start',
      message: expect.stringContaining('add a "start" script'),
    })
  })

  test('starts by its package manager, and with its loader where it needs one', () => {
    const modern = '__metadata:\n  version: 8\n'
    const files = { 'package.json': start('node a.js'), 'yarn.lock': modern }
    expect(planned(files).start).toEqual(['yarn', 'start'])
    expect(planned({ ...files, 'package.json': {}, 'server.js': '' }).start).toEqual(['yarn', 'node', 'server.js'])
    expect(planned({ 'package.json': start('next start'), 'pnpm-lock.yaml': '' }).start).toEqual(['pnpm', 'start'])
    expect(planned({ 'package.json': start('node a.js'), 'pnpm-lock.yaml': '' }).start).toEqual(['node', 'a.js'])
  })

  test.each(['>=20', '24.x', '^24.0.0 || ^26', '*', '', '>=24.21.0'])('that asks for Node %j is accepted', (node) => {
    expect(failure({ 'package.json': { ...start('node a.js'), engines: { node } } })).toBeNull()
  })

  test.each([
    ['^22', 'asks for Node "^22" in "engines.node", but apps here run on Node 24.21.0'],
    ['<20', 'asks for Node "<20"'],
    ['latest', 'not a range of versions: "latest"'],
  ])('that asks for Node %j is an error that says so', (node, message) => {
    const files = { 'package.json': { ...start('node a.js'), engines: { node } } }
    expect(failure(files)).toMatchObject({ code: 'unsupported_node', message: expect.stringContaining(message) })
    expect(failure({ ...files, Procfile: 'web: x' })?.code).toBe('unsupported_node')
  })

  test.each([
    ['{\n  "scripts": {\n    "start": node\n  }\n}', 'line 3, column 14'],
    ['{ "a": 1, }', 'line 1, column 11'],
    ['{ "a": 1', 'line 1, column 9'],
    ['', 'line 1, column 1'],
    ['{} x', 'line 1, column 4'],
  ])('whose package.json is %j is pointed to the error', (text, position) => {
    expect(failure({ 'package.json': text })).toEqual({
      code: 'invalid_package_json',
      message: `package.json is not valid JSON: see ${position}.`,
    })
  })

  test.each(['[]', 'null', '"a"', '1'])('whose package.json holds %s is an error', (text) => {
    expect(failure({ 'package.json': text })?.code).toBe('invalid_package_json')
  })

  test('may carry a byte order mark and fields of wrong types', () => {
    const text = `\uFEFF${JSON.stringify({ name: 1, main: [], scripts: { start: 7 }, engines: 'x', dependencies: null })}`
    expect(planned({ 'package.json': text, 'server.js': '' })).toEqual({
      kind: 'node',
      build: [],
      start: ['node', 'server.js'],
    })
  })
})

describe('a static site', () => {
  test.each([
    [{ 'index.html': '', 'public/index.html': '' }, '.'],
    [{ 'public/index.html': '', 'dist/index.html': '' }, 'public'],
    [{ 'dist/index.html': '' }, 'dist'],
    [{ 'index.html': '', 'package.json': { devDependencies: { prettier: '3' } } }, '.'],
  ])('%j is served from %j', (files, folder) => {
    expect(planned(files)).toEqual({ kind: 'static', build: [], start: ['fairlead-static', folder] })
  })

  test('that is built is served from where the build has put it', () => {
    const files = { 'package.json': { scripts: { build: 'vite build' } }, 'index.html': '', 'package-lock.json': '' }
    expect(planned(files)).toEqual({
      kind: 'static',
      build: ['npm ci --include=dev', 'npm run build'],
      start: ['fairlead-static', 'dist', 'build', 'out', 'public'],
    })
  })
})

describe('a Python app', () => {
  const pip = '.venv/bin/python -m pip install --no-input'

  test.each([
    ['nothing but its file', { 'main.py': '' }, ['python3 -m venv --without-pip .venv']],
    [
      'an empty requirements.txt',
      { 'app.py': '', 'requirements.txt': '# none\n\n' },
      ['python3 -m venv --without-pip .venv'],
    ],
    [
      'a requirements.txt',
      { 'app.py': '', 'requirements.txt': 'flask\n' },
      ['python3 -m venv .venv', `${pip} -r requirements.txt`],
    ],
    [
      'a package',
      { 'app.py': '', 'pyproject.toml': '[build-system]\nrequires = ["hatchling"]\n' },
      ['python3 -m venv .venv', `${pip} .`],
    ],
    [
      'a list of dependencies',
      { 'app.py': '', 'pyproject.toml': '[project]\ndependencies = ["flask>=3", "--index-url=x"]\n' },
      ['python3 -m venv .venv', `${pip} -- flask>=3 --index-url=x`],
    ],
    ['settings of tools', { 'app.py': '', 'pyproject.toml': '[tool.ruff]\n' }, ['python3 -m venv --without-pip .venv']],
  ])('with %s is built in an environment of its own', (_, files, build) => {
    expect(planned(files)).toEqual({
      kind: 'python',
      build,
      start: ['python', 'main.py' in files ? 'main.py' : 'app.py'],
    })
  })

  test('prints to its log at once', () => {
    const result = planRelease(tree({ 'main.py': '' }), SERVER)
    expect(result.ok && result.plan.start.env).toMatchObject({ PYTHONUNBUFFERED: '1' })
  })

  test('may have a Procfile and a build of its pages', () => {
    expect(
      planned({ Procfile: 'web: gunicorn a:b', 'requirements.txt': 'x', 'package.json': start('x', { build: 'b' }) }),
    ).toEqual({
      kind: 'procfile',
      build: ['python3 -m venv .venv', `${pip} -r requirements.txt`, 'npm run build'],
      start: ['/bin/sh', '-c', 'gunicorn a:b'],
    })
  })

  test('without a start, with a broken file, or without Python here is an error that says so', () => {
    expect(failure({ 'requirements.txt': 'x' })).toMatchObject({
      code: 'no_start',
      message: expect.stringContaining('main.py'),
    })
    expect(failure({ 'main.py': '', 'pyproject.toml': '[a]\nb = ?' })).toEqual({
      code: 'invalid_pyproject',
      message: 'pyproject.toml is not valid TOML: see line 2, column 5.',
    })
    const without = planRelease(tree({ 'main.py': '' }), { ...SERVER, hasPython: false })
    expect(without).toMatchObject({ ok: false, failure: { code: 'python_missing' } })
  })
})

describe('a fairlead.json', () => {
  test('names the folder of the app', () => {
    const files = {
      'fairlead.json': { root: './apps/web/' },
      'apps/web/package.json': start('node a.js', { build: 'b' }),
      'pnpm-lock.yaml': '',
      'index.html': '',
    }
    expect(planned(files)).toEqual({
      kind: 'node',
      build: ['pnpm install --frozen-lockfile --prod=false', 'fairlead-in apps/web pnpm run build'],
      start: ['fairlead-in', 'apps/web', 'node', 'a.js'],
    })
    expect(planned({ ...files, 'apps/web/package-lock.json': '' }).build[0]).toBe(
      'fairlead-in apps/web npm ci --include=dev',
    )
  })

  test('names the commands, in words that no shell reads', () => {
    const files = {
      'fairlead.json': { build: ['make', 'a b'], start: ['./serve', '$PORT'], health: '/up?deep=1' },
      Procfile: 'release: migrate',
      'package.json': start('node a.js', { build: 'b' }),
      'package-lock.json': '',
    }
    expect(planned(files)).toEqual({
      kind: 'command',
      build: ['npm ci --include=dev', 'make a b'],
      start: ['./serve', '$PORT'],
    })
    const result = planRelease(tree(files), SERVER)
    expect(result.ok && result.plan).toMatchObject({ health: '/up?deep=1', build: [{}, { argv: ['make', 'a b'] }] })
  })

  test.each([
    [{ root: '../x' }, '"root" must be a path inside the repository'],
    [{ root: '/etc' }, '"root" must be a path inside the repository'],
    [{ root: '' }, '"root" must be a path inside the repository'],
    [{ root: 'missing' }, '"root" is no folder'],
    [{ start: 'node server.js' }, '"start" must be a list of words'],
    [{ start: [] }, '"start" must have at least one word'],
    [{ build: ['a', 1] }, '"build.1" must be a string'],
    [{ build: ['a\0'] }, '"build.0" must not contain a NUL character'],
    [{ health: 'up' }, '"health" must be a path'],
    [{ health: '//elsewhere' }, '"health" must be a path'],
    [{ health: '/a b' }, '"health" must be a path'],
    [{ port: 80 }, '"port" is not known (known are $schema, root, build, start, health)'],
    [{ root: 1, health: 2 }, '"root" must be a path inside the repository; "health" must be a path'],
  ])('that holds %j is an error that names the key', (settings, message) => {
    expect(failure({ 'fairlead.json': settings, 'index.html': '' })).toEqual({
      code: 'invalid_fairlead_json',
      message: expect.stringContaining(message),
    })
  })

  test.each(['[]', 'null', '"a"'])('that holds %s is an error', (text) => {
    expect(failure({ 'fairlead.json': text, 'index.html': '' })?.message).toBe('fairlead.json must hold a JSON object.')
  })

  test('that is not JSON is pointed to the error', () => {
    expect(failure({ 'fairlead.json': '{\n  root: "x" }' })?.message).toBe(
      'fairlead.json is not valid JSON: see line 2, column 3.',
    )
  })

  test('has a published schema', async () => {
    const schema = z.toJSONSchema(fairleadJson, { io: 'input' })
    await expect(`${JSON.stringify(schema, null, 2)}\n`).toMatchFileSnapshot('../../server/assets/fairlead.schema.json')
  })
})

test('nothing recognised lists what is', () => {
  const message = failure({ 'README.md': '', 'main.rb': '' })?.message
  for (const word of ['Procfile', 'package.json', 'index.html']) expect(message).toContain(word)
})

test.each(['package.json', 'Procfile', 'fairlead.json', 'requirements.txt', 'pyproject.toml'])(
  'a %s that cannot be read is an error',
  (name) => {
    expect(failure({ [name]: null, 'index.html': '', 'main.py': '' })).toMatchObject({
      code: 'file_unreadable',
      message: expect.stringContaining(name),
    })
  },
)

describe('for any input', () => {
  const name = fc.constantFrom(
    'package.json',
    'Procfile',
    '.npmrc',
    'package-lock.json',
    'server.js',
    'index.html',
    'yarn.lock',
    'pnpm-lock.yaml',
    'requirements.txt',
    'pyproject.toml',
    'main.py',
    'fairlead.json',
    'web/package.json',
  )
  const field = fc.constantFrom('name', 'version', 'main', 'scripts', 'engines', 'dependencies', 'workspaces', 'config')
  const inner = fc.dictionary(fc.constantFrom('start', 'build', 'node', 'prestart', '__proto__'), fc.string())
  const packageJson = fc.dictionary(field, fc.oneof(inner, fc.jsonValue())).map((value) => JSON.stringify(value))
  const words = fc.oneof(fc.array(fc.string()), fc.jsonValue())
  const settings = fc
    .record(
      { root: fc.constantFrom('web', '.', '..', 'web/..'), build: words, start: words, health: fc.webPath() },
      { requiredKeys: [] },
    )
    .map((value) => JSON.stringify(value))
  const text = fc.oneof(
    packageJson,
    fc.json(),
    fc.string({ unit: 'binary' }),
    fc.string().map((line) => `web: ${line}`),
    fc.string().map((line) => `release: ${line}\nweb: x`),
    fc.array(fc.string()).map((list) => `[project]\ndependencies = ${JSON.stringify(list)}`),
    settings,
  )

  test('planning never throws, and a failure has a message', () => {
    fc.assert(
      fc.property(fc.dictionary(name, fc.option(text)), (files) => {
        const result = planRelease(tree(files), SERVER)
        if (result.ok) {
          const { build, release, start: run } = result.plan
          const argvs = [...build, run, ...(release === undefined ? [] : [release])].map(({ argv }) => argv)
          for (const argv of argvs) expect(argv.length > 0 && argv.every((word) => typeof word === 'string')).toBe(true)
        } else expect(result.failure.message).toMatch(/\.$/)
      }),
      { numRuns: 2000 },
    )
  })

  test('a script that runs directly has no character that a shell would act on', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (rest) => {
        const { start: argv } = planned({ 'package.json': start(`node ${rest}`) })
        if (argv[0] === 'node') expect(argv.join(' ')).toMatch(/^[\w@%+=:,./ -]+$/)
      }),
      { numRuns: 2000 },
    )
  })

  test('the position of an error in JSON is where no valid text goes on', () => {
    fc.assert(
      fc.property(
        fc.json(),
        fc.nat(),
        fc.constantFrom('}', ']', ',', ':', '"', 'x', '0', '\\', ' ', ''),
        (json, at, insert) => {
          const offset = at % (json.length + 1)
          const broken = json.slice(0, offset) + insert + json.slice(offset + 1)
          const position = findJsonError(broken)
          expect(position).toBeLessThanOrEqual(broken.length)
          if (isJson(broken)) expect(broken.slice(position).trim()).toBe('')
          // All before the change is good, up to the token that it is in.
          else expect(broken.slice(position).length).toBeLessThanOrEqual(broken.length - lastTokenStart(json, offset))
        },
      ),
      { numRuns: 2000 },
    )
  })
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Where the token before or at the offset starts: the change may make it a part of itself. */
function lastTokenStart(json: string, offset: number): number {
  let start = 0
  for (const match of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    if (match.index + match[0].length >= offset) return match.index
    start = match.index
  }
  return start
}

describe('the source tree', () => {
  let directory: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'fairlead-plan-'))
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  const write = async (name: string, files: Record<string, string>): Promise<string> => {
    const root = join(directory, name)
    await mkdir(root)
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await writeFile(join(root, path), text)
    }
    return root
  }

  test('has the names of the folder that fairlead.json names, unless it lies outside', async () => {
    const outside = await write('elsewhere', { 'package.json': '{}' })
    const root = await write('monorepo', {
      'fairlead.json': '{"root":"apps/web"}',
      'apps/web/package.json': '{"a":1}',
      'apps/web/public/index.html': '',
      'yarn.lock': `__metadata:\n${' '.repeat(1024 * 1024)}`,
    })
    const files = await readSourceTree(root)
    expect(
      ['apps/web', 'apps/web/package.json', 'apps/web/public/index.html', 'yarn.lock'].filter(files.has).length,
    ).toBe(4)
    expect(files.read('apps/web/package.json')).toBe('{"a":1}')
    expect(files.read('yarn.lock')).toMatch(/^__metadata:/)

    await writeFile(join(root, 'fairlead.json'), '{"root":"link"}')
    await symlink(outside, join(root, 'link'))
    expect((await readSourceTree(root)).has('link')).toBe(false)
    await writeFile(join(root, 'fairlead.json'), '{"root":"yarn.lock"}')
    expect((await readSourceTree(root)).has('yarn.lock/package.json')).toBe(false)
  })

  test('has the names at its top, the index of public and dist, and the texts that decide', async () => {
    const root = await write('plain', {
      'package.json': '{}',
      'src/index.html': '',
      'public/index.html': '',
      'dist/a': '',
    })
    const files = await readSourceTree(root)
    expect(['package.json', 'src', 'public', 'public/index.html', 'dist'].filter(files.has).length).toBe(5)
    expect(['src/index.html', 'dist/index.html', 'Procfile', 'dist/a'].filter(files.has)).toEqual([])
    expect(files.read('package.json')).toBe('{}')
    expect(files.read('Procfile')).toBeUndefined()
  })

  test('follows links inside, and none that leads out', async () => {
    const outside = await write('outside', { 'package.json': '{"name":"secret"}', 'index.html': '' })
    const root = await write('linked', { 'config/Procfile': 'web: a' })
    await symlink('config/Procfile', join(root, 'Procfile'))
    await symlink(join(outside, 'package.json'), join(root, 'package.json'))
    await symlink(outside, join(root, 'public'))
    await symlink('nowhere', join(root, '.npmrc'))
    const files = await readSourceTree(root)
    expect(files.read('Procfile')).toBe('web: a')
    expect(files.read('package.json')).toBeUndefined()
    expect(files.has('public/index.html')).toBe(false)
    expect(files.read('.npmrc')).toBeUndefined()
  })

  test('does not read what is no file or too large', async () => {
    const root = await write('large', { 'package.json': ' '.repeat(1024 * 1024 + 1), 'Procfile/web': 'a' })
    const files = await readSourceTree(root)
    expect(files.has('package.json') && files.has('Procfile')).toBe(true)
    expect(files.read('package.json')).toBeUndefined()
    expect(files.read('Procfile')).toBeUndefined()
  })
})
