import { describe, expect, test } from 'vitest'
import { failure, planned, planOf } from '../../harness/builds/planned.ts'

describe('a static site', () => {
  test.each([
    [{ 'index.html': '', 'public/index.html': '' }, '.'],
    [{ 'public/index.html': '', 'dist/index.html': '' }, 'public'],
    [{ 'dist/index.html': '' }, 'dist'],
    [{ 'index.html': '', 'package.json': { devDependencies: { prettier: '3' } } }, '.'],
  ])('%j is served from %j', (files, folder) => {
    expect(planned(files)).toEqual({ kind: 'static', build: [], start: ['fairlead-static', folder] })
  })

  test('with a build script is served from the folder that the build fills', () => {
    const files = { 'package.json': { scripts: { build: 'vite build' } }, 'index.html': '', 'package-lock.json': '' }
    expect(planned(files)).toEqual({
      kind: 'static',
      build: ['npm ci --include=dev', 'npm run build'],
      start: ['fairlead-static', 'dist'],
    })
    const result = planOf(files)
    const outputs = result.ok ? (result.plan.outputs ?? []) : []
    expect(outputs.map(({ start }) => start.argv[1])).toEqual(['dist', 'build', 'out', 'public'])
  })
})

describe('an unfinished page that needs a build', () => {
  const elm = { 'elm.json': {}, 'src/Main.elm': '' }
  test.each([
    [{ ...elm, 'index.html': '<script src="elm.js"></script>' }, 'elm make src/Main.elm --optimize --output=elm.js'],
    [{ ...elm, 'public/index.html': "<script defer src='/main.js?v=1'></script>" }, 'public/index.html loads /main.js'],
    [{ 'gleam.toml': '', 'index.html': '<script type=module src=./app.mjs></script>' }, 'Gleam makes it (gleam.toml)'],
    [
      { 'index.html': '<script type="module" src="/src/main.tsx"></script>' },
      'loads /src/main.tsx, which browsers do not',
    ],
    [{ 'index.html': '---\nlayout: home\n---\n', '_config.yml': '' }, 'begins with front matter'],
  ])('%j is not served', (files, message) => {
    expect(failure(files)).toMatchObject({ code: 'no_start', message: expect.stringContaining(message) })
  })

  test.each([
    ["with the compiler's output", { ...elm, 'elm.js': '', 'index.html': '<script src="elm.js"></script>' }],
    ['with output in an unlisted folder', { ...elm, vendor: '', 'index.html': '<script src="vendor/elm.js">' }],
    ['with scripts of other hosts', { ...elm, 'index.html': '<script src="https://cdn.example/elm.js"></script>' }],
    ['with a script in a comment', { ...elm, 'index.html': '<!-- <script src="elm.js"></script> -->' }],
    ['with inline scripts', { ...elm, 'index.html': '<script>Elm.Main.init()</script>' }],
    ['that a script in the page compiles', { 'index.html': '<script type="text/babel" src="app.jsx"></script>' }],
    ['that lacks a script for another reason', { 'index.html': '<script src="gone.js"></script>' }],
    ['that is too large to read', { ...elm, 'index.html': null }],
  ])('a page %s is served', (_, files) => {
    expect(planned(files)).toEqual({ kind: 'static', build: [], start: ['fairlead-static', '.'] })
  })

  test.each(['<!--', '<script ', '<script src', '<script\n'])('%j repeated many times takes no time', (text) => {
    // Excludes the time of other programs on a busy machine.
    const begun = process.threadCpuUsage()
    failure({ ...elm, 'index.html': text.repeat(200_000) })
    expect(process.threadCpuUsage(begun).user / 1_000).toBeLessThan(5_000)
  })
})
