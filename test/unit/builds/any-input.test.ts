import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findJsonError } from '../../../server/src/builds/json.ts'
import { failure, planned, planOf, start } from '../../harness/builds/planned.ts'

test('a tree without a recognised file fails with a list of those files', () => {
  const message = failure({ 'README.md': '', 'main.c': '' })?.message
  for (const word of ['Procfile', 'package.json', 'index.html']) expect(message).toContain(word)
})

test.each(['package.json', 'Procfile', 'fairlead.json', 'requirements.txt', 'pyproject.toml'])(
  'an unreadable %s is an error',
  (name) => {
    expect(failure({ [name]: null, 'index.html': '', 'main.py': '' })).toMatchObject({
      code: 'file_unreadable',
      message: expect.stringContaining(name),
    })
  },
)

describe('any input', () => {
  const versions = new Map(['go', 'ruby', 'php', 'cargo', 'javac', 'mix'].map((program) => [program, '1.2.3']))
  const name = fc.constantFrom(
    'package.json',
    'Procfile',
    '.npmrc',
    'package-lock.json',
    'server.js',
    'index.html',
    'yarn.lock',
    'pnpm-lock.yaml',
    'requirements.txt',
    'pyproject.toml',
    'main.py',
    'fairlead.json',
    'web/package.json',
    'go.mod',
    'main.go',
    'cmd/web/main.go',
    'Gemfile',
    'Gemfile.lock',
    'app.rb',
    '.ruby-version',
    'composer.json',
    'public/index.php',
    'Cargo.toml',
    'Cargo.lock',
    'src/main.rs',
    'rust-toolchain',
    'pom.xml',
    'build.gradle',
    'mix.exs',
    '.tool-versions',
  )
  const field = fc.constantFrom('name', 'version', 'main', 'scripts', 'engines', 'dependencies', 'workspaces', 'config')
  const inner = fc.dictionary(fc.constantFrom('start', 'build', 'node', 'prestart', '__proto__'), fc.string())
  const packageJson = fc.dictionary(field, fc.oneof(inner, fc.jsonValue())).map((value) => JSON.stringify(value))
  const words = fc.oneof(fc.array(fc.string()), fc.jsonValue())
  const settings = fc
    .record(
      { root: fc.constantFrom('web', '.', '..', 'web/..'), build: words, start: words, health: fc.webPath() },
      { requiredKeys: [] },
    )
    .map((value) => JSON.stringify(value))
  const text = fc.oneof(
    packageJson,
    fc.json(),
    fc.string({ unit: 'binary' }),
    fc.string().map((line) => `web: ${line}`),
    fc.string().map((line) => `release: ${line}\nweb: x`),
    fc.array(fc.string()).map((list) => `[project]\ndependencies = ${JSON.stringify(list)}`),
    fc.string().map((word) => `module ${word}\ngo ${word}\nrequire "${word}"`),
    fc.string().map((word) => `package main // ${word}`),
    fc.string().map((word) => `[package]\nname = ${JSON.stringify(word)}\nedition = "2021"`),
    fc.string().map((word) => `app: :${word}, elixir: "${word}" <java.version>${word}</java.version> ruby "${word}"`),
    fc.json().map((json) => `{"require":{"php":${json},"a/b":"1"}}`),
    settings,
  )

  test('is planned without an exception, and every failure has a message', () => {
    fc.assert(
      fc.property(fc.dictionary(name, fc.option(text)), (files) => {
        const result = planOf(files, { versions })
        if (result.ok) {
          const { build, release, start: run } = result.plan
          const argvs = [...build, run, ...(release === undefined ? [] : [release])].map(({ argv }) => argv)
          for (const argv of argvs) expect(argv.length > 0 && argv.every((word) => typeof word === 'string')).toBe(true)
        } else expect(result.failure.message).toMatch(/\.$/)
      }),
      { numRuns: 2000 },
    )
  })

  test('as a script that runs directly has no character with a meaning for a shell', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (rest) => {
        const { start: argv } = planned({ 'package.json': start(`node ${rest}`) })
        if (argv[0] === 'node') expect(argv.join(' ')).toMatch(/^[\w@%+=:,./ -]+$/)
      }),
      { numRuns: 2000 },
    )
  })

  test('that is broken JSON gets the first position after which no text is valid', () => {
    fc.assert(
      fc.property(
        fc.json(),
        fc.nat(),
        fc.constantFrom('}', ']', ',', ':', '"', 'x', '0', '\\', ' ', ''),
        (json, at, insert) => {
          const offset = at % (json.length + 1)
          const broken = json.slice(0, offset) + insert + json.slice(offset + 1)
          const position = findJsonError(broken)
          expect(position).toBeLessThanOrEqual(broken.length)
          if (isJson(broken)) expect(broken.slice(position).trim()).toBe('')
          // The text before the change is valid, up to the token that contains the change.
          else expect(broken.slice(position).length).toBeLessThanOrEqual(broken.length - lastTokenStart(json, offset))
        },
      ),
      { numRuns: 2000 },
    )
  })
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Returns the start of the token before or at the offset. The change may have become part of it. */
function lastTokenStart(json: string, offset: number): number {
  let start = 0
  for (const match of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    if (match.index + match[0].length >= offset) return match.index
    start = match.index
  }
  return start
}
