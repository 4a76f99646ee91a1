import { describe, expect, test } from 'vitest'
import { type Files, planOf, start } from '../../harness/builds/planned.ts'

/** Returns the requirements of the plan, each as `<tool> <range> (<from>)`. */
function asked(files: Files): string[] {
  const result = planOf(files)
  if (!result.ok) throw new Error(`${result.failure.code}: ${result.failure.message}`)
  return (result.plan.toolchain ?? []).map(({ tool, range, from }) => `${tool} ${range} (${from})`)
}

const notes = (files: Files): readonly string[] => {
  const result = planOf(files)
  return result.ok ? (result.plan.notes ?? []) : []
}

const app = (more: object = {}): Files => ({ 'package.json': { ...start('node a.js'), ...more } })
const lts = '4 || 6 || 8 || 10 || 12 || 14 || 16 || 18 || 20 || 22 || 24 || 26'

describe('the version of Node', () => {
  test.each<[string, Files, string[]]>([
    ['nothing', app(), []],
    ['engines', app({ engines: { node: '20.x' } }), ['node 20.x ("engines.node" in package.json)']],
    [
      'engines with spaces',
      app({ engines: { node: ' >= 18 < 21 ' } }),
      ['node >= 18 < 21 ("engines.node" in package.json)'],
    ],
    ['engines that allow everything', app({ engines: { node: '*' } }), []],
    ['engines with an alias', app({ engines: { node: 'latest' } }), []],
    ['.nvmrc', { ...app(), '.nvmrc': 'v20.11.0\n' }, ['node 20.11.0 (.nvmrc)']],
    ['.nvmrc with a comment', { ...app(), '.nvmrc': '# our Node\n22\n' }, ['node 22 (.nvmrc)']],
    ['.nvmrc with any LTS', { ...app(), '.nvmrc': 'lts/*' }, [`node ${lts} (.nvmrc)`]],
    ['.nvmrc with a named LTS', { ...app(), '.nvmrc': 'lts/Jod' }, ['node 22 (.nvmrc)']],
    ['.nvmrc with the newest version', { ...app(), '.nvmrc': 'node' }, []],
    ['.node-version', { ...app(), '.node-version': '18' }, ['node 18 (.node-version)']],
    [
      '.tool-versions',
      { ...app(), '.tool-versions': 'python 3.12\nnodejs 20.11.0 18.0.0 # x\n' },
      ['node 20.11.0 (.tool-versions)'],
    ],
    ['Volta', app({ volta: { node: '20.11.0' } }), ['node 20.11.0 ("volta.node" in package.json)']],
    [
      'devEngines',
      app({ devEngines: { runtime: { name: 'node', version: '^22' } } }),
      ['node ^22 ("devEngines.runtime" in package.json)'],
    ],
    ['.npmrc', { ...app(), '.npmrc': 'use-node-version=20.1.0' }, ['node 20.1.0 ("use-node-version" in .npmrc)']],
    ['an unreadable file', { ...app(), '.nvmrc': null }, []],
  ])('comes from %s', (_, files, expected) => {
    expect(asked(files)).toEqual(expected)
  })

  test('is the full version before a range, and a range before an alias', () => {
    expect(asked({ ...app({ engines: { node: '20.11.0' } }), '.nvmrc': '20' })).toEqual([
      'node 20.11.0 ("engines.node" in package.json)',
    ])
    expect(asked({ ...app({ engines: { node: '>=18' } }), '.nvmrc': '20' })).toEqual(['node 20 (.nvmrc)'])
    expect(asked({ ...app({ engines: { node: '18.x' } }), '.nvmrc': 'lts/*' })).toEqual([
      'node 18.x ("engines.node" in package.json)',
    ])
    expect(asked({ ...app({ volta: { node: '22.1.0' } }), '.nvmrc': '20.0.0' })[0]).toContain('volta')
  })

  test('of the app precedes the root version, which applies to apps without one', () => {
    const top = { 'fairlead.json': { root: 'a' }, '.nvmrc': '18' }
    expect(asked({ ...top, 'a/package.json': start('x'), 'a/.nvmrc': '20' })).toEqual(['node 20 (.nvmrc)'])
    expect(asked({ ...top, 'a/package.json': start('x') })).toEqual(['node 18 (.nvmrc)'])
  })

  test('that is unknown is ignored with a warning, and so is a contradictory one', () => {
    const files = { ...app({ engines: { node: '22.x' } }), '.nvmrc': 'lts/nothing' }
    expect(asked(files)).toEqual(['node 22.x ("engines.node" in package.json)'])
    expect(notes(files)).toEqual([
      expect.stringContaining('.nvmrc names no version of Node that is known here ("lts/nothing")'),
    ])
    expect(notes({ ...app({ engines: { node: '22.x' } }), '.nvmrc': '20.1.0' })).toEqual([
      'Warning: "engines.node" in package.json asks for Node 22.x, but .nvmrc for 20.1.0, which counts.',
    ])
  })
})

describe('the version of the package manager', () => {
  const hash = `sha512.${'a'.repeat(128)}`

  test.each<[string, Files, string[]]>([
    ['npm', app({ packageManager: 'npm@10.2.3' }), ['npm 10.2.3 ("packageManager" in package.json)']],
    [
      'pnpm',
      { ...app({ packageManager: 'pnpm@9.1.0' }), 'pnpm-lock.yaml': '' },
      ['pnpm 9.1.0 ("packageManager" in package.json)'],
    ],
    [
      'Yarn 1',
      { ...app({ packageManager: 'yarn@1.22.19' }), 'yarn.lock': '' },
      ['yarn 1.22.19 ("packageManager" in package.json)'],
    ],
    [
      'Yarn 4',
      { ...app({ packageManager: 'yarn@4.1.0' }), 'yarn.lock': '__metadata:\n  version: 8\n' },
      ['yarn 4.1.0 ("packageManager" in package.json)'],
    ],
    ["another manager than the lock file's", { ...app({ packageManager: 'pnpm@9.1.0' }), 'package-lock.json': '' }, []],
    ['no version', { ...app({ packageManager: 'pnpm@latest' }), 'pnpm-lock.yaml': '' }, []],
    [
      'Volta',
      { ...app({ volta: { yarn: '1.22.10' } }), 'yarn.lock': '' },
      ['yarn 1.22.10 ("volta.yarn" in package.json)'],
    ],
    [
      'engines',
      { ...app({ engines: { pnpm: '^8' } }), 'pnpm-lock.yaml': '' },
      ['pnpm ^8 ("engines.pnpm" in package.json)'],
    ],
    ['engines of npm, which only warns', app({ engines: { npm: '6.x' } }), []],
    [
      'the lock file of pnpm 8',
      { ...app(), 'pnpm-lock.yaml': "lockfileVersion: '6.0'\n" },
      ['pnpm 8 (pnpm-lock.yaml)'],
    ],
    ['the lock file of pnpm 7', { ...app(), 'pnpm-lock.yaml': 'lockfileVersion: 5.4\n' }, ['pnpm 7 (pnpm-lock.yaml)']],
    ['the lock file of pnpm 9', { ...app(), 'pnpm-lock.yaml': "lockfileVersion: '9.0'\n" }, []],
    [
      'Bun',
      { ...app({ packageManager: 'bun@1.2.3' }), 'bun.lock': '' },
      ['bun 1.2.3 ("packageManager" in package.json)'],
    ],
    ['Bun in its file', { ...app(), 'bun.lockb': '', '.bun-version': '1.1.0' }, ['bun 1.1.0 (.bun-version)']],
    ['any Bun', { ...app(), 'bun.lock': '' }, ['bun * (the lock file)']],
  ])('comes from %s', (_, files, expected) => {
    expect(asked(files)).toEqual(expected)
  })

  test('comes with its hash', () => {
    const result = planOf({ ...app({ packageManager: `pnpm@9.1.0+${hash}` }), 'pnpm-lock.yaml': '' })
    expect(result.ok && result.plan.toolchain).toEqual([
      { tool: 'pnpm', range: '9.1.0', from: '"packageManager" in package.json', hash },
    ])
  })

  test('may stand at the top of a workspace', () => {
    const files = {
      'fairlead.json': { root: 'a' },
      'package.json': { packageManager: 'pnpm@9.1.0' },
      'pnpm-lock.yaml': '',
    }
    expect(asked({ ...files, 'a/package.json': start('x') })).toEqual(['pnpm 9.1.0 ("packageManager" in package.json)'])
  })
})

describe('Bun and Deno in commands', () => {
  test.each<[string, Files, string[]]>([
    ['a start script', { 'package.json': start('bun src/a.ts') }, ['bun *']],
    [
      'a script that the build runs',
      { 'package.json': start('x', { build: 'npm run b', b: 'X=1 bunx vite build' }) },
      ['bun *'],
    ],
    ['a script for development', { 'package.json': start('x', { dev: 'bun --watch a.ts' }) }, []],
    ['a word that is not a command', { 'package.json': start('node bun-app.js bundle deno.js') }, []],
    ['a Procfile', { 'package.json': {}, Procfile: 'web: deno run -A a.ts' }, ['deno *']],
    ['fairlead.json', { 'package.json': {}, 'fairlead.json': { start: ['bun', 'a.ts'] } }, ['bun *']],
  ])('%s requires the programs that it calls', (_, files, expected) => {
    expect(asked(files)).toEqual(expected.map((each) => `${each} (the commands that run)`))
  })
})
