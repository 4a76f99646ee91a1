import { describe, expect, test } from 'vitest'
import { failure, planned, planOf, start } from '../../harness/builds/planned.ts'

describe('an app of Bun', () => {
  test('is installed, built and started by Bun', () => {
    const files = {
      'package.json': { ...start('bun src/a.ts', { build: 'b' }), dependencies: { a: '1' } },
      'bun.lock': '',
    }
    expect(planned(files)).toEqual({
      kind: 'node',
      build: ['bun install --frozen-lockfile', 'bun run build'],
      start: ['bun', 'start'],
    })
  })

  test('runs the program that a watcher in its "dev" script watches, without other scripts', () => {
    const files = { 'package.json': { scripts: { dev: 'bun run --hot src/index.ts' } }, 'bun.lock': '', src: '' }
    expect(planned(files).start).toEqual(['/bin/sh', '-c', 'bun run src/index.ts'])
  })

  test('without a build gets no development dependencies, and a plain Node script runs by itself', () => {
    expect(planned({ 'package.json': start('node a.js'), 'bun.lockb': '' })).toMatchObject({
      build: ['bun install --frozen-lockfile --production'],
      start: ['node', 'a.js'],
    })
  })

  test.each([
    [{ 'package.json': { module: 'index.ts' }, 'index.ts': '' }, ['bun', 'run', 'index.ts']],
    [{ 'package.json': { module: './src/a.ts' }, src: '', 'index.ts': '' }, ['bun', 'run', './src/a.ts']],
    [{ 'package.json': { module: '../a.ts', main: '-e' }, 'server.ts': '' }, ['bun', 'run', 'server.ts']],
  ])('without a start script: %j runs %j', (files, argv) => {
    expect(planned({ ...files, 'bun.lock': '' }).start).toEqual(argv)
  })

  test.each([
    { packageManager: 'bun@1.2.3' },
    { devDependencies: { 'bun-types': 'latest' } },
    { module: 'index.ts', devDependencies: { '@types/bun': '1' } },
  ])('is recognised without a lock file by %j', (manifest) => {
    expect(planned({ 'package.json': manifest, 'index.ts': '' }).start).toEqual(['bun', 'run', 'index.ts'])
  })

  test('is not recognised when Bun’s types stand beside another package manager’s lock file or name', () => {
    const types = { devDependencies: { '@types/bun': '1' } }
    const manifest = { ...start('a'), ...types }
    expect(planned({ 'package.json': manifest, 'package-lock.json': '{}' }).start).toEqual(['npm', 'start'])
    expect(planned({ 'package.json': { ...manifest, packageManager: 'pnpm@10.0.0' } }).start).toEqual(['pnpm', 'start'])
  })
})

describe('an app of Deno', () => {
  test('is installed, built and started by its tasks', () => {
    const files = {
      'deno.json': { tasks: { build: 'deno run -A b.ts', start: { command: 'deno run -A main.ts' } } },
      'deno.lock': '',
    }
    expect(planned(files)).toEqual({
      kind: 'deno',
      build: ['deno install --frozen', 'deno task build'],
      start: ['deno', 'task', 'start'],
    })
    const result = planOf({ ...files, '.tool-versions': 'deno 2.1.0' })
    expect(result.ok && result.plan.toolchain).toEqual([{ tool: 'deno', range: '2.1.0', from: '.tool-versions' }])
  })

  test.each([
    [
      { 'deno.json': {}, 'main.ts': '' },
      'deno install --entrypoint main.ts',
      ['deno', 'run', '--allow-all', 'main.ts'],
    ],
    [
      { 'deno.lock': '', 'server.ts': '' },
      'deno install --frozen --entrypoint server.ts',
      ['deno', 'run', '--allow-all', 'server.ts'],
    ],
    [
      { 'deno.jsonc': '{ // the app\n "tasks": { "start": "deno run src/a.ts", /* , */ }, }', 'src/a.ts': '' },
      'deno install --entrypoint src/a.ts',
      ['deno', 'task', 'start'],
    ],
    [
      { 'deno.json': { tasks: { start: 'deno run --watch dev.ts', preview: 'deno run main.ts' } }, 'main.ts': '' },
      'deno install --entrypoint main.ts',
      ['deno', 'task', 'preview'],
    ],
  ])('%j is installed with %j and runs %j', (files, install, argv) => {
    expect(planned(files)).toEqual({ kind: 'deno', build: [install], start: argv })
  })

  test.each([
    [{ 'main.ts': 'Deno.serve(() => new Response("a"))' }, 'main.ts'],
    [{ 'server.ts': 'import { Hono } from "jsr:@hono/hono"' }, 'server.ts'],
    [{ 'src/index.ts': 'import { serve } from "https://deno.land/std/http/server.ts"' }, 'src/index.ts'],
  ])('without a deno.json is recognised by its first file: %j', (files, main) => {
    const argv = ['deno', 'run', '--allow-all', main]
    expect(planned(files)).toEqual({ kind: 'deno', build: [`deno install --entrypoint ${main}`], start: argv })
  })

  test('is not recognised when its first file is ambiguous, or beside a package.json', () => {
    expect(failure({ 'main.ts': 'export const a = 1 // not Deno. serve' })?.code).toBe('not_recognised')
    const files = { 'package.json': start('node a.js'), 'main.ts': 'Deno.serve(a)' }
    expect(planned(files).kind).toBe('node')
  })

  test('is not recognised when a page contains the code that imports packages from addresses, as browsers do', () => {
    const code = 'import { h } from "https://esm.sh/preact"'
    for (const page of ['index.html', 'public/index.html']) {
      expect(planned({ [page]: '<script type=module src=main.js></script>', 'main.js': code }).kind).toBe('static')
    }
    expect(planned({ 'index.html': '<p>', 'main.ts': `${code}\nDeno.serve(h)` }).kind).toBe('deno')
  })

  test('that only starts for development is an error that says what to add', () => {
    const files = { 'deno.json': { tasks: { start: 'deno run --watch=static dev.ts' } } }
    expect(failure(files)).toMatchObject({
      code: 'development_server',
      message: expect.stringContaining('is for development'),
    })
    expect(failure({ 'deno.json': {} })).toMatchObject({ code: 'no_start' })
  })

  test('with a broken or unreadable deno.json is an error', () => {
    expect(failure({ 'deno.json': '{\n a }' })).toEqual({
      code: 'invalid_deno_json',
      message: 'deno.json is not valid JSON: see line 2, column 2.',
    })
    expect(failure({ 'deno.json': null })?.code).toBe('file_unreadable')
  })

  test('is not recognised with a package.json and a deno.json for tools only', () => {
    expect(planned({ 'package.json': start('node a.js'), 'deno.json': { fmt: {} } }).kind).toBe('node')
  })
})
