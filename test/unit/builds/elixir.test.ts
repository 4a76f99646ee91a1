import { describe, expect, test } from 'vitest'
import { failure, planned, planOf } from '../../harness/builds/planned.ts'

const mix = (more = '', deps = '') => `def project do\n [app: :shop, ${more}\n deps: [${deps}]]\nend\n`
const start = (name: string) => ['/bin/sh', '-c', 'exec "_build/prod/rel/$1/bin/$1" start', 'sh', name]

describe('an Elixir app', () => {
  test.each([
    ['no packages', { 'mix.exs': mix() }, ['mix compile', 'mix release --overwrite'], 'shop'],
    [
      'packages of Hex',
      { 'mix.exs': mix('', '{:plug, "~> 1.0"}') },
      [
        'mix local.hex --force --if-missing',
        'mix local.rebar --force --if-missing',
        'mix deps.get --only prod',
        'mix compile',
        'mix release --overwrite',
      ],
      'shop',
    ],
    [
      'local packages',
      { 'mix.exs': mix('', '{:core, path: "core"}') },
      ['mix deps.get --only prod', 'mix compile', 'mix release --overwrite'],
      'shop',
    ],
    [
      'a release of another name and assets',
      { 'mix.exs': mix('releases: [web: []],\n aliases: ["assets.deploy": []],') },
      ['mix compile', 'mix assets.deploy', 'mix release --overwrite'],
      'web',
    ],
  ])('with %s', (_, files, build, name) => {
    expect(planned(files)).toEqual({ kind: 'elixir', build, start: start(name) })
  })

  test('with a Procfile is built first, in the production environment', () => {
    const result = planOf({ 'mix.exs': mix('', '{:phoenix, "~> 1.7"}'), Procfile: 'web: mix phx.server' })
    expect(result.ok && result.plan).toMatchObject({
      kind: 'procfile',
      start: { env: { MIX_ENV: 'prod', PHX_SERVER: 'true' } },
      notes: [expect.stringContaining('SECRET_KEY_BASE')],
    })
  })

  test('that names no app, or is unreadable, fails', () => {
    expect(failure({ 'mix.exs': '' })).toMatchObject({ code: 'no_start' })
    expect(failure({ 'mix.exs': null })).toMatchObject({ code: 'file_unreadable' })
  })

  test.each([
    ['~> 1.12', null],
    ['~> 1.15', 'unsupported_version'],
    ['~> 1.13.0 or ~> 1.14', null],
    ['>= 1.10.0 and < 1.14.0', 'unsupported_version'],
  ])('that asks for Elixir %s on 1.14.0: %s', (range, code) => {
    const result = planOf({ 'mix.exs': mix(`elixir: "${range}",`) }, { versions: new Map([['mix', '1.14.0']]) })
    expect(result.ok ? null : result.failure.code).toBe(code)
  })
})
