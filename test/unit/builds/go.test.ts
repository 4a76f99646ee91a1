import { describe, expect, test } from 'vitest'
import { failure, planned, planOf, start } from '../../harness/builds/planned.ts'

const main = 'package main\n\nfunc main() {}\n'
const module = (name = 'example.com/shop', version = '1.19') => `module ${name}\n\ngo ${version}\n`

describe('a Go app', () => {
  test.each([
    ['main.go', { 'go.mod': module(), 'main.go': main }, ['go build -o bin/shop .'], 'bin/shop'],
    ['another file', { 'go.mod': module('shop/v2'), 'web.go': main }, ['go build -o bin/shop .'], 'bin/shop'],
    ['cmd/main.go', { 'go.mod': module(), 'cmd/main.go': main }, ['go build -o bin/shop ./cmd'], 'bin/shop'],
    ['one command', { 'go.mod': module(), 'cmd/up/main.go': main }, ['go build -o bin/up ./cmd/up'], 'bin/up'],
    [
      'several commands, one of which serves',
      { 'go.mod': module(), 'cmd/migrate/main.go': main, 'cmd/server/main.go': main },
      ['go build -o bin/server ./cmd/server'],
      'bin/server',
    ],
    [
      'several commands, one with its name',
      { 'go.mod': module(), 'cmd/server/main.go': main, 'cmd/shop/main.go': main },
      ['go build -o bin/shop ./cmd/shop'],
      'bin/shop',
    ],
    ['a folder', { 'go.mod': module(), 'web/main.go': main }, ['go build -o bin/web ./web'], 'bin/web'],
    ['an odd name', { 'go.mod': 'module "a/--x"\n', 'main.go': main }, ['go build -o bin/app .'], 'bin/app'],
  ])('with %s builds and starts it', (_, files, build, program) => {
    expect(planned(files)).toEqual({ kind: 'go', build, start: [program] })
  })

  test.each([
    ['web: bin/shop', ['go build -o bin/shop .']],
    ['web: shop', ['go build -o bin/shop .']],
    ['web: ./hello --port $PORT', ['go build -o hello .']],
    ['web: A=b exec ./out/hello', ['go build -o out/hello .']],
    ['web: /usr/bin/hello', ['go build -o bin/shop .']],
    ['web: ../hello', ['go build -o bin/shop .']],
    ['web: ./run.sh', ['go build -o bin/shop .']],
  ])('with the Procfile %j is built for it', (line, build) => {
    const files = { Procfile: line, 'go.mod': module(), 'main.go': main, 'run.sh': '' }
    expect(planned(files)).toMatchObject({ kind: 'procfile', build })
  })

  test.each([
    ['//go:build mage', 'magefile.go'],
    ['//go:build ignore\n// +build linux', 'gen.go'],
    ['// Copyright\n\n//go:build windows || (darwin && !cgo)', 'a.go'],
    ['//go:build !linux', 'a.go'],
    ['//go:build go1.99', 'a.go'],
    ['// +build ignore\n', 'gen.go'],
    ['// +build linux,!unix darwin\n', 'a.go'],
    ['// +build linux\n// +build windows\n', 'a.go'],
    ['/* of\nseveral */ /* two */\n//go:build ignore', 'a.go'],
    ['', 'a_windows.go'],
    ['', 'a_linux_mips.go'],
    ['', 'a_test.go'],
    ['', '_a.go'],
    ['/*\npackage main\n*/\npackage shop\n/*', 'doc.go'],
  ])('a top-level file that go build ignores is no program: %j in %s', (constraint, name) => {
    const files = { 'go.mod': module(), [name]: `${constraint}\n\n${main}`, 'cmd/web/main.go': main }
    const versions = new Map([['go', '1.19.8']])
    expect(planOf(files, { versions })).toMatchObject({ plan: { start: { argv: ['bin/web'] } } })
  })

  test.each([
    ['//go:build linux && (amd64 || arm64 || !cgo || unix) // all', 'a.go'],
    ['//go:build go1.18 && !ignore', 'a.go'],
    ['//go:build )(', 'a.go'],
    ['// +build windows linux\n', 'a.go'],
    ['// +build ignore', 'a.go'],
    ['// +build ignore\n//go:build linux\n', 'a.go'],
    ['', 'linux.go'],
    ['', 'windows.go'],
    ['', 'a_linux.go'],
    ['', 'a_windows_more.go'],
  ])('a top-level file that go build compiles is a program: %j in %s', (constraint, name) => {
    const at = constraint === '// +build ignore' ? constraint : `${constraint}\n`
    const files = { 'go.mod': module(), [name]: `${at}\n${main}`, 'cmd/web/main.go': main }
    const versions = new Map([['go', '1.19.8']])
    expect(planOf(files, { versions })).toMatchObject({ plan: { start: { argv: ['bin/shop'] } } })
  })

  test('with several commands and a Procfile builds all of them', () => {
    const files = { Procfile: 'web: bin/b', 'go.mod': module(), 'cmd/a/main.go': main, 'cmd/b/main.go': main }
    expect(planned(files).build).toEqual(['go build -o bin/b ./cmd/b', 'go build -o bin/a ./cmd/a'])
  })

  test('builds the pages of a package.json first', () => {
    const files = { 'go.mod': module(), 'main.go': main, 'package.json': { scripts: { build: 'b' } } }
    expect(planned(files).build).toEqual(['npm run build', 'go build -o bin/shop .'])
  })

  test('beside an app for Node leaves the build to Node', () => {
    expect(planned({ 'go.mod': module(), 'main.go': main, 'package.json': start('node a.js') })).toEqual({
      kind: 'node',
      build: [],
      start: ['node', 'a.js'],
    })
  })

  test('without a program, or with several, fails and says what to add', () => {
    expect(failure({ 'go.mod': module() })).toMatchObject({ code: 'no_start' })
    expect(failure({ 'go.mod': module(), 'cmd/a/main.go': main, 'cmd/b/main.go': main })?.message).toContain(
      '(a, b): add a Procfile with a line such as "web: bin/a"',
    )
    expect(failure({ 'go.mod': null })).toMatchObject({ code: 'file_unreadable' })
  })

  test.each([
    ['1.19', '1.19.8', null],
    ['1.22', '1.19.8', null],
    ['1.22.1', '1.19.8', 'unsupported_version'],
    ['1.22', '1.21.0', 'unsupported_version'],
    ['1.22', '1.24.1', null],
  ])('that asks for Go %s on a server with %s: %s', (asked, there, code) => {
    const files = { 'go.mod': module('a', asked), 'main.go': main }
    const result = planOf(files, { versions: new Map([['go', there]]) })
    expect(result.ok ? null : result.failure.code).toBe(code)
  })

  test('that may need a newer Go is built with a warning', () => {
    const result = planOf({ 'go.mod': module('a', '1.22'), 'main.go': main }, { versions: new Map([['go', '1.19.8']]) })
    expect(result.ok && result.plan.notes?.join()).toMatch(/go\.mod asks for Go "1\.22"; this server has Go 1\.19\.8/)
  })
})
