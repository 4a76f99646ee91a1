import { expect, it } from 'vitest'
import { detectors } from '../../server/src/builds/detectors/index.ts'
import { planBuild } from '../../server/src/builds/plan.ts'
import { type Files, tree } from '../builds/planned.ts'
import { deno } from './deno.ts'

const plan = (files: Files, programs: readonly string[] = ['deno']) =>
  planBuild(tree(files), [...detectors, deno], { nodeVersion: '24.21.0', programs: new Set(programs) })

it('plans an app of the added language, with its cache for every command of the build', () => {
  const { plan: made } = plan({
    'deno.json': { tasks: { start: 'deno run main.ts', build: 'deno run build.ts' } },
  }) as {
    plan: object
  }
  const caches = { DENO_DIR: 'deno' }
  expect(made).toEqual({
    kind: 'deno',
    build: [
      { argv: ['deno', 'install'], caches },
      { argv: ['deno', 'task', 'build'], caches },
    ],
    start: { argv: ['deno', 'task', 'start'] },
  })
})

it.each([
  ['no start', { 'deno.json': {} }, ['deno'], 'no_start'],
  ['a broken file', { 'deno.json': '{' }, ['deno'], 'invalid_deno_json'],
  ['a file that cannot be read', { 'deno.json': null }, ['deno'], 'file_unreadable'],
  ['no Deno on the server', { 'deno.json': { tasks: { start: 'x' } } }, [], 'deno_missing'],
] as const)('tells of %s', (_, files, programs, code) => {
  expect(plan(files, programs)).toMatchObject({ ok: false, failure: { code } })
})

it('is named when nothing is recognised, and leaves the other languages as they are', () => {
  expect(plan({ 'main.rs': '' })).toMatchObject({
    failure: { code: 'not_recognised', message: expect.stringContaining(deno.recognises) },
  })
  expect(plan({ 'index.html': '' })).toMatchObject({ plan: { kind: 'static' } })
})
