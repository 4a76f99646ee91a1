import { expect, it } from 'vitest'
import { detectors } from '../../../server/src/builds/detectors/index.ts'
import { planBuild } from '../../../server/src/builds/plan.ts'
import { type Files, tree } from '../../harness/builds/planned.ts'
import { dart } from './dart.ts'

const plan = (files: Files, programs: readonly string[] = ['dart']) =>
  planBuild(tree(files), [...detectors, dart], { programs: new Set(programs) })

it('plans an app of the added language, with its cache for every command of the build', () => {
  const { plan: made } = plan({ 'pubspec.yaml': 'name: shop\n', 'bin/server.dart': '' }) as { plan: object }
  const caches = { PUB_CACHE: 'pub' }
  expect(made).toEqual({
    kind: 'dart',
    build: [
      { argv: ['dart', 'pub', 'get'], caches },
      { argv: ['dart', 'compile', 'exe', 'bin/server.dart', '-o', 'build/shop'], caches },
    ],
    start: { argv: ['build/shop'] },
  })
})

it.each([
  ['no start', { 'pubspec.yaml': 'name: shop' }, ['dart'], 'no_start'],
  ['a broken file', { 'pubspec.yaml': '{' }, ['dart'], 'invalid_pubspec'],
  ['an unreadable file', { 'pubspec.yaml': null }, ['dart'], 'file_unreadable'],
  ['no Dart on the server', { 'pubspec.yaml': 'name: shop', 'bin/server.dart': '' }, [], 'dart_missing'],
] as const)('reports %s', (_, files, programs, code) => {
  expect(plan(files, programs)).toMatchObject({ ok: false, failure: { code } })
})

it('is named when nothing is recognised, and does not change the other languages', () => {
  expect(plan({ 'main.zig': '' })).toMatchObject({
    failure: { code: 'not_recognised', message: expect.stringContaining(dart.recognises) },
  })
  expect(plan({ 'index.html': '' })).toMatchObject({ plan: { kind: 'static' } })
})
