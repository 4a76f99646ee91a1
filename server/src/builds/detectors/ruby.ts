import type { Command } from '../../platform/command.ts'
import type { SourceTree } from '../tree.ts'
import { toolVersion, versionIn } from '../version-files.ts'
import { type Detector, type DetectorSource, startLine } from './detector.ts'
import { type AskedVersion, debianTool, noteVersionFiles, refuseVersion } from './tools.ts'

const MAINS = ['app.rb', 'main.rb', 'server.rb']

/** Sinatra, Rack and Rails each read another variable. */
const env = { APP_ENV: 'production', RACK_ENV: 'production', LANG: 'C.UTF-8' }

/** Stored in the release, gems survive the deletion of the cache. */
const bundleEnv = {
  ...env,
  BUNDLE_PATH: 'vendor/bundle',
  BUNDLE_WITHOUT: 'development:test',
  BUNDLE_GLOBAL_GEM_CACHE: 'true',
}
const railsEnv = { RAILS_ENV: 'production', RAILS_LOG_TO_STDOUT: '1', RAILS_SERVE_STATIC_FILES: '1' }

interface RubyApp {
  readonly hasGemfile: boolean
  readonly isLocked: boolean
  readonly isRails: boolean
  has(gem: string): boolean
  readonly env: Readonly<Record<string, string>>
}

/** Detects Ruby apps: Rails, anything with a `config.ru`, or a program. */
export const ruby: Detector = {
  name: 'ruby',
  recognises: 'a config.ru, a Rails app or an app.rb',
  files: ['Gemfile', 'Gemfile.lock', '.ruby-version', '.tool-versions'],
  tools: [
    debianTool('Ruby', 'ruby', 'ruby-full', { args: ['-v'], pattern: /ruby (\d+\.\d+\.\d+)/ }),
    debianTool('Bundler', 'bundle', 'bundler build-essential'),
  ],
  caches: { BUNDLE_USER_CACHE: 'bundle' },
  detect(source) {
    const { app } = source
    const main = MAINS.find((name) => app.has(name))
    if (!app.has('Gemfile') && !app.has('config.ru') && main === undefined) return null
    const facts = readRubyApp(app)
    const start = planStart(app, facts, main)
    return {
      ok: true,
      value: {
        start: start === null ? null : { ...start, env: facts.env },
        advice: facts.hasGemfile
          ? 'Gemfile does not say how the app starts: add a config.ru or an app.rb, or a Procfile with a "web:" line.'
          : 'config.ru needs a Gemfile with rack and a server such as puma: add one.',
        programs: facts.hasGemfile ? ['ruby', 'bundle'] : ['ruby'],
        uses: ['node', 'ruby'],
        env: facts.env,
        notes: notesOf(source, facts),
        install: () => refuseRuby(source) ?? { ok: true, value: facts.hasGemfile ? [{ command: install(facts) }] : [] },
        build: planBuild(facts),
      },
    }
  },
}

function readRubyApp(app: SourceTree): RubyApp {
  const [gemfile = '', lock] = [app.read('Gemfile'), app.read('Gemfile.lock')]
  const isRails = app.has('config/application.rb') && app.has('Gemfile')
  return {
    hasGemfile: app.has('Gemfile'),
    isLocked: app.has('Gemfile.lock'),
    isRails,
    has: (gem) =>
      lock === undefined
        ? new RegExp(`^[ \\t]*gem[ \\t]*\\(?['"]${gem}['"]`, 'm').test(gemfile)
        : new RegExp(`^[ \\t]+${gem}(?:[ !(]|$)`, 'm').test(lock),
    env: { ...(app.has('Gemfile') ? bundleEnv : env), ...(isRails ? railsEnv : {}) },
  }
}

function planStart(app: SourceTree, { hasGemfile, has, isRails }: RubyApp, main: string | undefined): Command | null {
  if (isRails && !has('puma')) return startLine('exec bundle exec rails server -b 0.0.0.0 -p "$PORT"')
  if (isRails || (hasGemfile && app.has('config.ru'))) {
    if (has('puma')) return startLine('exec bundle exec puma -p "$PORT"')
    return startLine('exec bundle exec rackup -o 0.0.0.0 -p "$PORT"')
  }
  if (main === undefined) return null
  return { argv: hasGemfile ? ['bundle', 'exec', 'ruby', main] : ['ruby', main] }
}

const install = ({ isLocked, env: variables }: RubyApp): Command => ({
  argv: ['bundle', 'install'],
  // A lock file fixes the versions.
  env: { ...variables, ...(isLocked ? { BUNDLE_FROZEN: 'true' } : {}) },
})

/** A Rails build needs a secret, but must not use the app's secret: any text works. */
function planBuild({ isRails, has, env: variables }: RubyApp): Command[] {
  if (!isRails || !(has('sprockets') || has('propshaft'))) return []
  const secrets = { SECRET_KEY_BASE_DUMMY: '1', SECRET_KEY_BASE: 'for-the-build-alone' }
  return [{ argv: ['bundle', 'exec', 'rails', 'assets:precompile'], env: { ...variables, ...secrets } }]
}

function refuseRuby({ app, versions }: DetectorSource) {
  const gemfile = app.read('Gemfile') ?? ''
  const [, line = ''] = /^[ \t]*ruby[ \t(]+([^#\n]+)/m.exec(gemfile) ?? []
  if (/\bfile:/.test(line)) {
    const text = versionIn(app, '.ruby-version')
    return text === undefined
      ? null
      : refuseVersion({ ...asked, from: '.ruby-version', text, range: exact(text) }, versions)
  }
  const texts = [...line.matchAll(/['"]([^'"]+)['"]/g)].map(([, text = '']) => text)
  const text = texts.join(', ')
  const range = texts.map(rubyRange).join(' ')
  return text === '' ? null : refuseVersion({ ...asked, from: 'Gemfile', text, range }, versions)
}

const asked = { language: 'Ruby', program: 'ruby' } satisfies Partial<AskedVersion>

const exact = (text: string): string => /(?<!\d)(\d+(?:\.\d+){1,2})/.exec(text)?.[1] ?? '*'

/** `~> 3.2` allows 3.3 and `~> 3.2.1` does not, as in RubyGems. */
export function rubyRange(text: string): string {
  const [, operator = '', version = ''] = /^\s*(~>|>=|<=|!=|>|<|=)?\s*(\d+(?:\.\d+)*)/.exec(text) ?? []
  if (version === '' || operator === '!=') return '*'
  const parts = version.split('.')
  if (operator === '~>')
    return parts.length < 3 ? `>=${version} <${Number(parts[0]) + 1}` : `~${parts.slice(0, 3).join('.')}`
  return `${operator}${parts.slice(0, 3).join('.')}`
}

function notesOf({ app, versions }: DetectorSource, { isRails, hasGemfile, isLocked }: RubyApp): string[] {
  const others = [
    { from: '.ruby-version', text: versionIn(app, '.ruby-version') },
    { from: '.tool-versions', text: toolVersion(app, 'ruby') },
  ]
  return [
    ...(hasGemfile && !isLocked
      ? ['warning: there is no Gemfile.lock: the newest gems that the Gemfile allows are installed.']
      : []),
    ...(isRails
      ? [
          'Rails: set SECRET_KEY_BASE or RAILS_MASTER_KEY, and DATABASE_URL where the app has a database. Migrations run by a Procfile: "release: bundle exec rails db:migrate".',
        ]
      : []),
    ...noteVersionFiles(asked, others, versions),
  ]
}
