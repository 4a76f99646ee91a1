import { describe, expect, test } from 'vitest'
import { rubyRange } from '../../../server/src/builds/detectors/ruby.ts'
import { failure, planned, planOf, start } from '../../harness/builds/planned.ts'

const lock = (...gems: string[]) =>
  `GEM\n  specs:\n${gems.map((gem) => `    ${gem} (1.0)\n`).join('')}\nDEPENDENCIES\n${gems.map((gem) => `  ${gem}\n`).join('')}`
const sh = (line: string) => ['/bin/sh', '-c', line]
const rails = { Gemfile: '', 'config.ru': '', 'config/application.rb': '' }

describe('a Ruby app', () => {
  test.each([
    ['only a program', { 'app.rb': '' }, [], ['ruby', 'app.rb']],
    [
      'a program with gems',
      { 'app.rb': '', Gemfile: "gem 'sinatra'" },
      ['bundle install'],
      ['bundle', 'exec', 'ruby', 'app.rb'],
    ],
    [
      'puma in its lock file',
      { 'config.ru': '', Gemfile: '', 'Gemfile.lock': lock('puma', 'rack') },
      ['bundle install'],
      sh('exec bundle exec puma -p "$PORT"'),
    ],
    [
      'puma in its Gemfile',
      { 'config.ru': '', Gemfile: 'gem "puma", "~> 6"' },
      ['bundle install'],
      sh('exec bundle exec puma -p "$PORT"'),
    ],
    [
      'another server',
      { 'config.ru': '', Gemfile: '', 'Gemfile.lock': lock('puma-status', 'webrick') },
      ['bundle install'],
      sh('exec bundle exec rackup -o 0.0.0.0 -p "$PORT"'),
    ],
    [
      'Rails',
      { ...rails, 'Gemfile.lock': lock('propshaft', 'puma', 'rails') },
      ['bundle install', 'bundle exec rails assets:precompile'],
      sh('exec bundle exec puma -p "$PORT"'),
    ],
    [
      'Rails without assets and puma',
      { ...rails, 'Gemfile.lock': lock('rails') },
      ['bundle install'],
      sh('exec bundle exec rails server -b 0.0.0.0 -p "$PORT"'),
    ],
  ])('with %s', (_, files, build, run) => {
    expect(planned(files)).toEqual({ kind: 'ruby', build, start: run })
  })

  test('of Rails has its variables, a secret only for the build, and advice on migrations', () => {
    const result = planOf({
      ...rails,
      'Gemfile.lock': lock('puma', 'sprockets'),
      'package.json': { scripts: { build: 'b' } },
    })
    if (!result.ok) throw new Error(result.failure.message)
    const { build, start: run, notes } = result.plan
    expect(run.env).toMatchObject({ RAILS_ENV: 'production', RAILS_LOG_TO_STDOUT: '1', RAILS_SERVE_STATIC_FILES: '1' })
    expect(run.env).not.toHaveProperty('SECRET_KEY_BASE')
    expect(build.map(({ argv }) => argv.join(' '))).toEqual([
      'bundle install',
      'bundle exec rails assets:precompile',
      'npm run build',
    ])
    expect(build[0]?.env).toMatchObject({ BUNDLE_FROZEN: 'true', BUNDLE_PATH: 'vendor/bundle' })
    expect(build[1]?.env).toMatchObject({ SECRET_KEY_BASE_DUMMY: '1' })
    expect(notes?.join()).toContain('bundle exec rails db:migrate')
  })

  test('with a Procfile is built first, and runs with the same variables', () => {
    const result = planOf({ Procfile: 'web: bundle exec puma', Gemfile: '', 'config.ru': '' })
    expect(result.ok && result.plan).toMatchObject({
      kind: 'procfile',
      build: [{ argv: ['bundle', 'install'] }],
      start: { env: { BUNDLE_PATH: 'vendor/bundle', RACK_ENV: 'production' } },
    })
  })

  test('whose Gemfile is only for tools is an app for Node, and needs no Ruby', () => {
    const files = { Gemfile: "gem 'danger'", 'package.json': start('node a.js') }
    expect(planned(files).kind).toBe('node')
    const result = planOf({ ...files, Procfile: 'web: node a.js' }, { programs: new Set() })
    expect(result.ok && result.plan.notes?.join()).toContain('Not built: the part in ruby')
  })

  test('without a start, or on a server without Ruby, fails and says what to do', () => {
    expect(failure({ Gemfile: '' })).toMatchObject({ code: 'no_start', message: expect.stringContaining('config.ru') })
    expect(failure({ 'config.ru': '' })).toMatchObject({ message: expect.stringContaining('needs a Gemfile') })
    const result = planOf({ Gemfile: '', 'app.rb': '' }, { programs: new Set(['ruby']) })
    expect(result).toMatchObject({
      failure: { code: 'bundle_missing', message: expect.stringContaining('apt-get install') },
    })
    expect(planOf({ 'app.rb': '' }, { programs: new Set(['ruby']) }).ok).toBe(true)
  })

  test.each([
    ['ruby "3.1.7"', '', null],
    ["ruby '3.3.0'", '', 'unsupported_version'],
    ['ruby "~> 3.0"', '', null],
    ['ruby ">= 3.0", "< 3.1"', '', 'unsupported_version'],
    ['ruby file: ".ruby-version"', '3.4.1', 'unsupported_version'],
    ['', '3.4.1', null],
  ])('with %j in its Gemfile and the .ruby-version %j on Ruby 3.1.7: %s', (line, version, code) => {
    const files = { 'app.rb': '', Gemfile: `source "x"\n${line}\n`, '.ruby-version': version }
    const result = planOf(files, { versions: new Map([['ruby', '3.1.7']]) })
    expect(result.ok ? null : result.failure.code).toBe(code)
  })

  test.each([
    ['~> 3.2', '>=3.2 <4'],
    ['~> 3.2.1', '~3.2.1'],
    ['>= 2.7', '>=2.7'],
    ['3.1.2', '3.1.2'],
    ['!= 3', '*'],
    ['x', '*'],
  ])('reads the range %j as %j', (text, range) => {
    expect(rubyRange(text)).toBe(range)
  })
})
