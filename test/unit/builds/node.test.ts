import { describe, expect, test } from 'vitest'
import { failure, planned, planOf, start } from '../../harness/builds/planned.ts'

describe('an installation', () => {
  const dev = { devDependencies: { husky: '9', rimraf: '6', typescript: '5', 'patch-package': '8', prisma: '6' } }
  const locks: Record<string, [files: Record<string, string>, all: string, some: string]> = {
    npm: [{ 'package-lock.json': '' }, 'npm ci --include=dev', 'npm ci --omit=dev'],
    pnpm: [
      { 'pnpm-lock.yaml': '' },
      'pnpm install --frozen-lockfile --prod=false',
      'pnpm install --frozen-lockfile --prod=true',
    ],
    yarn: [
      { 'yarn.lock': '# yarn lockfile v1\n' },
      'yarn install --frozen-lockfile --non-interactive --production=false',
      'yarn install --frozen-lockfile --non-interactive --production=true',
    ],
    bun: [{ 'bun.lock': '' }, 'bun install --frozen-lockfile', 'bun install --frozen-lockfile --production'],
  }
  const scripts: [Record<string, string>, boolean][] = [
    [{ prepare: 'husky install' }, true],
    [{ prepare: 'husky' }, true],
    [{ postinstall: 'rimraf tmp' }, true],
    [{ preinstall: 'npx rimraf tmp' }, true],
    [{ postinstall: 'npm run clean', clean: 'rimraf tmp' }, true],
    [{ prepare: 'test -n "$CI" || husky' }, true],
    [{ install: 'tsc -p .' }, true],
    [{ postinstall: 'patch-package && prisma generate' }, true],
    [{ prepare: 'node build.js' }, false],
    [{ test: 'rimraf tmp' }, false],
  ]
  const cases = Object.keys(locks).flatMap((manager) => scripts.map(([given, all]) => [manager, given, all] as const))

  test.each(cases)('by %s has the packages that its scripts call: %j', (manager, given, all) => {
    const [files, whole, part] = locks[manager] ?? [{}, '', '']
    const { build } = planned({ 'package.json': { ...start('node a.js', given), ...dev }, ...files })
    expect(build[0]).toBe(all ? whole : part)
  })

  test('of a workspace has the packages that the root scripts call', () => {
    const { build } = planned({
      'fairlead.json': { root: 'web' },
      'package.json': { workspaces: ['web'], scripts: { prepare: 'husky' }, devDependencies: { husky: '9' } },
      'package-lock.json': '',
      'web/package.json': start('node a.js'),
      'web/a.js': '',
    })
    expect(build[0]).toContain('npm ci --include=dev')
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
      'that names another program',
      { 'package.json': { ...start('x'), packageManager: 'vlt@1', dependencies: { a: '1' } } },
      ['npm install --omit=dev'],
    ],
    ['with empty dependencies', { 'package.json': { ...start('x'), dependencies: {} } }, []],
    ['without dependencies', { 'package.json': start('node a.js') }, []],
    [
      'with a build',
      { 'package.json': { ...start('x', { build: 'b' }), dependencies: { a: '1' } } },
      ['npm install --include=dev', 'npm run build'],
    ],
    ['with only a build', { 'package.json': start('x', { build: 'b' }) }, ['npm run build']],
  ])('%s is built with the commands that its files require', (_, files, build) => {
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
    ['nodemon server.js', ['node', 'server.js']],
    ['next start', ['npm', 'start']],
  ])('with the start script %j runs %j', (script, argv) => {
    expect(planned({ 'package.json': start(script) }).start).toEqual(argv)
  })

  test.each([
    ['a prestart script', { 'package.json': start('node a.js', { prestart: 'x' }) }],
    ['a poststart script', { 'package.json': start('node a.js', { poststart: 'x' }) }],
    ['settings for its scripts', { 'package.json': { ...start('node a.js'), config: { port: 1 } } }],
    ['a separate Node', { 'package.json': { ...start('node a.js'), dependencies: { node: '20' } } }],
    ['options for Node in .npmrc', { 'package.json': start('node a.js'), '.npmrc': 'a=b\nnode-options=--no-warnings' }],
    ['a shell in .npmrc', { 'package.json': start('node a.js'), '.npmrc': 'script-shell=bash' }],
    ['an unreadable .npmrc', { 'package.json': start('node a.js'), '.npmrc': null }],
  ])('with %s starts through npm', (_, files) => {
    expect(planned(files).start).toEqual(['npm', 'start'])
  })

  test('installs Cypress without its program, which only tests use', () => {
    const result = planOf({ 'package.json': start('node a.js', { build: 'b' }), 'package-lock.json': '' })
    const [install, build] = result.ok ? result.plan.build : []
    expect(install?.env).toMatchObject({ npm_config_audit: 'false', CYPRESS_INSTALL_BINARY: '0' })
    expect(build?.env).not.toHaveProperty('CYPRESS_INSTALL_BINARY')
  })

  test('waits a few minutes for a silent registry, unless the operator says otherwise', () => {
    const result = planOf({ 'package.json': start('node a.js'), 'package-lock.json': '' })
    const [install] = result.ok ? result.plan.build : []
    expect(install?.settings).toEqual({ npm_config_fetch_timeout: '60000', npm_config_fetch_retry_maxtimeout: '10000' })
  })

  test('with an .npmrc that does not concern scripts starts directly', () => {
    expect(planned({ 'package.json': start('node a.js'), '.npmrc': 'registry=x' }).start).toEqual(['node', 'a.js'])
  })

  test('that starts directly gets its name and version in variables, as npm sets them', () => {
    const result = planOf({ 'package.json': { ...start('node a.js'), name: 'n', version: '1.2.3' } })
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

  describe('in a workspace', () => {
    const member = (name: string, uses: readonly string[] = [], build = 'tsc') => ({
      name,
      scripts: { build },
      dependencies: Object.fromEntries(uses.map((used) => [used, '*'])),
    })
    const workspace = {
      'fairlead.json': { root: 'apps/api' },
      'package.json': { workspaces: ['apps/*', './packages/*/'] },
      'package-lock.json': '',
      'apps/api/package.json': { ...member('api', ['@acme/db', 'express']), main: 'server.js' },
      'apps/api/server.js': '',
      'packages/db/package.json': member('@acme/db', ['@acme/log']),
      'packages/log/package.json': member('@acme/log', ['@acme/db']),
      'packages/other/package.json': member('@acme/other'),
    }

    test('is built after the members that it uses, each once', () => {
      expect(planned(workspace).build).toEqual([
        'npm ci --include=dev',
        'fairlead-in apps/api npm run build --workspace=@acme/log',
        'fairlead-in apps/api npm run build --workspace=@acme/db',
        'fairlead-in apps/api npm run build',
      ])
      const { 'package-lock.json': _, ...others } = workspace
      expect(planned({ ...others, 'yarn.lock': '' }).build).toContain(
        'fairlead-in apps/api yarn workspace @acme/log run build',
      )
    })

    test.each([
      ['that is not a member', { 'package.json': { workspaces: { packages: ['apps/*', 'packages/o*'] } } }],
      ['whose name is an option', { 'packages/db/package.json': member('--help') }],
      ['without a build script', { 'packages/db/package.json': { name: '@acme/db' } }],
    ])('does not build a package %s', (_, changes) => {
      expect(planned({ ...workspace, ...changes }).build).toEqual([
        'npm ci --include=dev',
        'fairlead-in apps/api npm run build',
      ])
    })
  })

  test('without a start script or file is an error that says what to add', () => {
    expect(failure({ 'package.json': {} })).toMatchObject({
      code: 'no_start',
      message: expect.stringContaining('add a "start" script'),
    })
  })

  test('starts by its package manager, and with the loader of later Yarns', () => {
    const modern = '__metadata:\n  version: 8\n'
    const files = { 'package.json': start('node a.js'), 'yarn.lock': modern }
    expect(planned(files).start).toEqual(['yarn', 'start'])
    expect(planned({ ...files, 'package.json': {}, 'server.js': '' }).start).toEqual(['yarn', 'node', 'server.js'])
    expect(planned({ 'package.json': start('next start'), 'pnpm-lock.yaml': '' }).start).toEqual(['pnpm', 'start'])
    expect(planned({ 'package.json': start('node a.js'), 'pnpm-lock.yaml': '' }).start).toEqual(['node', 'a.js'])
  })

  test.each([
    ['{\n  "scripts": {\n    "start": node\n  }\n}', 'line 3, column 14'],
    ['{ "a": 1, }', 'line 1, column 11'],
    ['{ "a": 1', 'line 1, column 9'],
    ['', 'line 1, column 1'],
    ['{} x', 'line 1, column 4'],
  ])('with the package.json %j fails with the line and column of the error', (text, position) => {
    expect(failure({ 'package.json': text })).toEqual({
      code: 'invalid_package_json',
      message: `package.json is not valid JSON: see ${position}.`,
    })
  })

  test.each(['[]', 'null', '"a"', '1'])('with the package.json %s is an error', (text) => {
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
