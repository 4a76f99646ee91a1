import { describe, expect, test } from 'vitest'
import { parseProcfile } from '../../../server/src/builds/detectors/procfile.ts'
import { failure, planned, planOf, start } from '../../harness/builds/planned.ts'

describe('a Procfile', () => {
  test('precedes other files, and its web line reaches a shell unchanged', () => {
    expect(planned({ Procfile: 'web: serve -p $PORT && true\n', 'index.html': '', 'server.js': '' })).toEqual({
      kind: 'procfile',
      build: [],
      start: ['/bin/sh', '-c', 'serve -p $PORT && true'],
    })
  })

  test('runs after the install and the build of a package.json', () => {
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

  test('has the processes that do not run by themselves named in the log', () => {
    const notes = (Procfile: string, processes = {}) => {
      const result = planOf({ Procfile, 'fairlead.json': JSON.stringify({ processes }) })
      return result.ok ? (result.plan.notes ?? []) : []
    }
    expect(notes('web: a\nrelease: b')).toEqual([])
    expect(notes('web: a\nworker: b\nclock: c')).toEqual([
      expect.stringContaining('"worker", "clock" will not run until asked for'),
    ])
    expect(notes('web: a\nworker: b\nclock: c', { worker: { instances: 1 }, clock: { cpus: 0.5 } })).toEqual([
      expect.stringContaining('Procfile: "clock" will not run'),
    ])
  })

  test('without a web line is an error that names the line', () => {
    expect(failure({ Procfile: 'worker: w', 'index.html': '' })).toMatchObject({
      code: 'invalid_procfile',
      message: expect.stringContaining('"web" process'),
    })
  })
})

describe('process types', () => {
  const files = { 'package.json': '{}', Procfile: 'web: node a.js\nworker: node b.js --all\nrelease: node c.js' }
  const withTypes = (processes: unknown) => planOf({ ...files, 'fairlead.json': JSON.stringify({ processes }) })

  test('come from the Procfile and from fairlead.json, which wins', () => {
    expect(
      withTypes({ web: { instances: 2, memory_mb: 128 }, worker: { cpus: 0.5 }, clock: { command: ['node', 'd.js'] } }),
    ).toMatchObject({
      plan: {
        start: { argv: ['/bin/sh', '-c', 'node a.js'] },
        processes: {
          web: { instances: 2, memoryMb: 128 },
          worker: { command: { argv: ['/bin/sh', '-c', 'node b.js --all'] }, cpus: 0.5 },
          clock: { command: { argv: ['node', 'd.js'] } },
        },
      },
    })
    expect(withTypes({ web: { command: ['node', 'other.js'] } })).toMatchObject({
      plan: { start: { argv: ['node', 'other.js'] } },
    })
  })

  test('have a command, a name, and valid numbers', () => {
    const refusal = (processes: unknown) =>
      expect(withTypes(processes)).toMatchObject({ failure: { code: 'invalid_fairlead_json' } })
    refusal({ clock: { instances: 1 } })
    refusal({ release: { command: ['a'] } })
    refusal({ web: { instances: -1 } })
    refusal({ web: { memory_mb: 1 } })
    refusal({ web: { size: 'large' } })
  })

  test('are limited in number', () => {
    const lines = (count: number) => Array.from({ length: count }, (_, at) => `type-${at}: node b.js`)
    const withLines = (count: number) => planOf({ ...files, Procfile: ['web: node a.js', ...lines(count)].join('\n') })
    expect(withLines(50)).toMatchObject({ ok: true })
    expect(withLines(51)).toMatchObject({
      failure: { code: 'invalid_procfile', message: expect.stringContaining('51 process types') },
    })
    const commands = Object.fromEntries(lines(50).map((line) => [line.split(':')[0], { command: ['node', 'b.js'] }]))
    expect(withTypes(commands)).toMatchObject({
      failure: { code: 'invalid_fairlead_json', message: expect.stringContaining('51 process types') },
    })
  })
})
