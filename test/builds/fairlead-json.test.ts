import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { fairleadJson } from '../../server/src/builds/source/fairlead-json.ts'
import { failure, planned, planOf, start } from './planned.ts'

describe('a fairlead.json', () => {
  test('sets the folder of the app', () => {
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

  test('sets commands as lists of words, without a shell', () => {
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
    const result = planOf(files)
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
  ])('with %j is an error that names the key', (settings, message) => {
    expect(failure({ 'fairlead.json': settings, 'index.html': '' })).toEqual({
      code: 'invalid_fairlead_json',
      message: expect.stringContaining(message),
    })
  })

  test.each(['[]', 'null', '"a"'])('with %s is an error', (text) => {
    expect(failure({ 'fairlead.json': text, 'index.html': '' })?.message).toBe('fairlead.json must hold a JSON object.')
  })

  test('with a syntax error fails with its line and column', () => {
    expect(failure({ 'fairlead.json': '{\n  root: "x" }' })?.message).toBe(
      'fairlead.json is not valid JSON: see line 2, column 3.',
    )
  })

  test('has a published schema', async () => {
    const schema = z.toJSONSchema(fairleadJson, { io: 'input' })
    await expect(`${JSON.stringify(schema, null, 2)}\n`).toMatchFileSnapshot('../../server/assets/fairlead.schema.json')
  })
})
