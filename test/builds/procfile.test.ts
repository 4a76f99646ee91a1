import { describe, expect, test } from 'vitest'
import { parseProcfile } from '../../server/src/builds/detectors/procfile.ts'
import { failure, planned, start } from './planned.ts'

describe('a Procfile', () => {
  test('goes before other files, and its web line is given to a shell unchanged', () => {
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

  test('without a web line is an error that names the line', () => {
    expect(failure({ Procfile: 'worker: w', 'index.html': '' })).toMatchObject({
      code: 'invalid_procfile',
      message: expect.stringContaining('"web" process'),
    })
  })
})
