import { describe, expect, test } from 'vitest'
import { type Files, planned, planOf } from '../../harness/builds/planned.ts'

const notes = (files: Files): string => {
  const result = planOf(files)
  return result.ok ? (result.plan.notes ?? []).join(' ') : result.failure.message
}

describe('a package.json without a "start" script', () => {
  test.each([
    ['the watcher of "dev"', { dev: 'nodemon -L src/index.js' }, ['node', 'src/index.js']],
    ['"start:dev"', { 'start:dev': 'node --watch src/main.js' }, ['node', 'src/main.js']],
    ['a plain "serve"', { serve: 'node api/index.js' }, ['node', 'api/index.js']],
    ['a script for production', { dev: 'nodemon a.js', 'start:prod': 'node b.js' }, ['node', 'b.js']],
    ['a script that "dev" runs', { dev: 'npm run watching', watching: 'nodemon c.js' }, ['node', 'c.js']],
  ])('starts as %s says', (_, scripts, argv) => {
    const files = { 'package.json': { main: 'index.js', scripts } }
    expect(planned(files).start).toEqual(argv)
    expect(notes(files)).toContain('package.json has no "start" script.')
  })

  test.each([
    ['a development server', { dev: 'http-server-of-ours --dev' }],
    ['two programs', { dev: 'nodemon a.js & tailwindcss --watch' }],
    ['a watcher of unknown files', { dev: 'nodemon' }],
    ['Node as a terminal program', { dev: 'node' }],
  ])('does not start by %s', (_, scripts) => {
    const result = planOf({ 'package.json': { scripts } })
    expect(!result.ok && result.failure.code).toBe('no_start')
  })

  test('starts by an existing main file, not by a development file', () => {
    const files = { 'package.json': { main: 'app.js', scripts: { dev: 'nodemon other.js' } }, 'app.js': '' }
    expect(planned(files).start).toEqual(['node', 'app.js'])
  })
})

test('installs the runtime that a development script names', () => {
  const result = planOf({ 'package.json': { scripts: { dev: 'bun run --hot src/index.ts' } } })
  expect(result.ok && result.plan.start.argv).toEqual(['/bin/sh', '-c', 'bun run src/index.ts'])
  expect(result.ok && result.plan.toolchain).toEqual([expect.objectContaining({ tool: 'bun' })])
})

test('prefers a program to a watcher from a package of another name', () => {
  const files = {
    'package.json': {
      scripts: { start: 'nodemon --exec babel-node src/index.js' },
      devDependencies: { '@babel/node': '7', nodemon: '3' },
    },
  }
  expect(planned(files).start).toEqual(['/bin/sh', '-c', 'babel-node src/index.js'])
  expect(planned(files).build).toEqual([expect.stringContaining('--include=dev')])
})

describe('a missing file of variables', () => {
  const started = (script: string, files: Files = {}, more: Readonly<Record<string, string>> = {}) =>
    planned({ 'package.json': { scripts: { start: script, ...more } }, ...files }).start

  test.each<[string, string[], Record<string, string>?]>([
    ['node --env-file=.env src/index.js', ['node', 'src/index.js']],
    ['node --env-file ./.env --env-file=.env.local a.js --b', ['node', 'a.js', '--b']],
    ['node --watch --env-file=.env a.js', ['node', 'a.js']],
    ['A=1 tsx --env-file=.env a.ts', ['/bin/sh', '-c', 'A=1 tsx a.ts']],
    ['node --env-file=.env "a b.js" && node --env-file=.env c.js', ['/bin/sh', '-c', 'node "a b.js" && node c.js']],
    ['npm run serve', ['node', 'a.js'], { serve: 'node --env-file=.env a.js' }],
  ])('is removed from %j', (script, argv, more = {}) => {
    expect(started(script, {}, more)).toEqual(argv)
    const files = { 'package.json': { scripts: { start: script, ...more } } }
    expect(notes(files)).toContain("the app's variables come from Fairlead")
  })

  test.each([
    ['it is there', 'node --env-file=.env a.js', { '.env': 'A=1' }, {}],
    ['the build makes it', 'node --env-file=.env a.js', {}, { build: 'cp .env.sample .env' }],
    ['the app works without it', 'node --env-file-if-exists=.env a.js', {}, {}],
    ['another program reads it', 'serve --env-file=.env a.js', {}, {}],
  ])('stays where %s', (_, script, files, more) => {
    expect(started(script, files, more)).toEqual(script.startsWith('node') ? script.split(' ') : ['npm', 'start'])
  })
})
