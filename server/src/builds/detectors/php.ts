import { phpServerName } from '../../platform/toolchain.ts'
import { fieldsOf, readJson } from '../json.ts'
import { failed, type Result, unreadable } from '../result.ts'
import type { SourceTree } from '../tree.ts'
import { toolVersion, versionIn } from '../version-files.ts'
import type { Detector, DetectorSource } from './detector.ts'
import { debianTool, noteVersionFiles, refuseVersion } from './tools.ts'

/** Document roots, the most protective first. */
const FOLDERS = ['public', 'web', '.']

const composerEnv = { COMPOSER_NO_INTERACTION: '1' }
const laravelEnv = { APP_ENV: 'production', APP_DEBUG: 'false', LOG_CHANNEL: 'stderr' }
const symfonyEnv = { APP_ENV: 'prod', APP_DEBUG: '0' }

interface Composer {
  readonly php: string | undefined
  readonly installs: boolean
}

/** Detects PHP apps, which PHP's built-in server serves. */
export const php: Detector = {
  name: 'php',
  recognises: 'an index.php at the top, in public/ or in web/',
  files: ['composer.json', '.php-version', '.tool-versions'],
  tools: [
    debianTool('PHP', 'php', 'php-cli', { args: ['-v'], pattern: /PHP (\d+\.\d+\.\d+)/ }),
    debianTool('Composer', 'composer', 'composer php-mbstring php-xml php-curl unzip'),
  ],
  caches: { COMPOSER_CACHE_DIR: 'composer' },
  detect(source) {
    const { app } = source
    const folder = FOLDERS.find((each) => app.has(each === '.' ? 'index.php' : `${each}/index.php`))
    if (folder === undefined && !app.has('composer.json')) return null
    const composer = readComposer(app)
    if (!composer.ok) return composer
    const env = { ...composerEnv, ...(app.has('artisan') ? laravelEnv : app.has('bin/console') ? symfonyEnv : {}) }
    const { installs } = composer.value
    return {
      ok: true,
      value: {
        start: folder === undefined ? null : { argv: [phpServerName, folder], env },
        advice:
          'composer.json is there, but no index.php at the top, in public/ or in web/: add a Procfile with a "web:" line.',
        programs: installs ? ['php', 'composer'] : ['php'],
        uses: ['php', 'node'],
        env,
        notes: notesOf(source, folder),
        install: () =>
          refusePhp(source, composer.value) ?? { ok: true, value: installs ? [{ command: install(env) }] : [] },
      },
    }
  },
}

const install = (env: Readonly<Record<string, string>>) =>
  ({
    argv: [
      'composer',
      'install',
      '--no-dev',
      '--prefer-dist',
      '--optimize-autoloader',
      '--no-interaction',
      '--no-progress',
    ],
    env,
  }) as const

function readComposer(app: SourceTree): Result<Composer> {
  if (!app.has('composer.json')) return { ok: true, value: { php: undefined, installs: false } }
  const text = app.read('composer.json')
  if (text === undefined) return unreadable('composer.json')
  const json = readJson('composer.json', text.trim() === '' ? '{}' : text)
  if (!json.ok) return failed('invalid_composer_json', json.message)
  const fields = fieldsOf(json.value)
  const required = fieldsOf(fields['require'])
  const { php: range } = required
  const packages = Object.keys(required).filter((name) => name.includes('/'))
  return {
    ok: true,
    value: {
      php: typeof range === 'string' ? range : undefined,
      installs: packages.length > 0 || fields['autoload'] !== undefined || fields['scripts'] !== undefined,
    },
  }
}

function refusePhp({ versions }: DetectorSource, { php: text }: Composer) {
  if (text === undefined) return null
  const asked = { language: 'PHP', program: 'php', from: 'composer.json', text, range: composerRange(text) }
  return refuseVersion(asked, versions)
}

/** Converts Composer's notation: it has `|` and `,`, and its `~8.1` allows 8.2. */
export function composerRange(text: string): string {
  const alternatives = text.split(/\|\|?/).map((alternative) =>
    alternative
      .replace(/@\w+/g, '')
      .replace(/,/g, ' ')
      .replace(/~\s*(\d+)\.(\d+)(?![.\d])/g, '>=$1.$2.0 <$1.999999.0')
      .trim(),
  )
  return alternatives.join(' || ')
}

function notesOf({ app, versions }: DetectorSource, folder: string | undefined): string[] {
  const others = [
    { from: '.php-version', text: versionIn(app, '.php-version') },
    { from: '.tool-versions', text: toolVersion(app, 'php') },
  ]
  const framework = app.has('artisan')
    ? [
        'Laravel: set APP_KEY (php artisan key:generate --show) and APP_URL. Migrations run by a Procfile: "release: php artisan migrate --force".',
      ]
    : app.has('bin/console')
      ? [
          'Symfony: set APP_SECRET. Migrations run by a Procfile: "release: php bin/console doctrine:migrations:migrate -n".',
        ]
      : []
  return [
    ...(folder === undefined
      ? []
      : [`PHP: ${folder === '.' ? 'the top folder' : `${folder}/`} is served by PHP's own server.`]),
    ...framework,
    ...noteVersionFiles({ language: 'PHP', program: 'php' }, others, versions),
  ]
}
