import { describe, expect, test } from 'vitest'
import { composerRange } from '../../../server/src/builds/detectors/php.ts'
import { failure, planned, planOf } from '../../harness/builds/planned.ts'

const install = 'composer install --no-dev --prefer-dist --optimize-autoloader --no-interaction --no-progress'
const laravel = { 'composer.json': { require: { 'laravel/framework': '^11' } }, 'public/index.php': '', artisan: '' }

describe('a PHP app', () => {
  test.each([
    ['pages at the top', { 'index.php': '', 'index.html': '' }, [], '.'],
    ['pages in public/', { 'public/index.php': '', 'index.php': '' }, [], 'public'],
    ['pages in web/', { 'web/index.php': '', 'composer.json': '' }, [], 'web'],
    ['packages', { 'public/index.php': '', 'composer.json': { require: { 'a/b': '1' } } }, [install], 'public'],
    ['an autoloader', { 'index.php': '', 'composer.json': { autoload: {} } }, [install], '.'],
    [
      'Laravel and pages that Vite builds',
      { ...laravel, 'package.json': { scripts: { build: 'vite build', dev: 'vite' } } },
      [install, 'npm run build'],
      'public',
    ],
  ])('with %s', (_, files, build, folder) => {
    expect(planned(files)).toEqual({ kind: 'php', build, start: ['fairlead-php', folder] })
  })

  test('of Laravel or Symfony has production variables, and advice', () => {
    const result = planOf(laravel)
    expect(result.ok && result.plan).toMatchObject({
      start: { env: { APP_ENV: 'production', APP_DEBUG: 'false' } },
      notes: [expect.anything(), expect.stringContaining('APP_KEY')],
    })
    const symfony = planOf({ 'public/index.php': '', 'bin/console': '' })
    expect(symfony.ok && symfony.plan.start.env).toMatchObject({ APP_ENV: 'prod', APP_DEBUG: '0' })
  })

  test.each([
    ['web: heroku-php-apache2 web/', ['fairlead-php', 'web']],
    ['web: vendor/bin/heroku-php-nginx -C nginx.conf public/', ['fairlead-php', 'public']],
    ['web: heroku-php-apache2', ['fairlead-php', '.']],
    ['web: php -S 0.0.0.0:$PORT', ['/bin/sh', '-c', 'php -S 0.0.0.0:$PORT']],
    ['web: heroku-php-apache2 $(x)', ['/bin/sh', '-c', 'heroku-php-apache2 $(x)']],
  ])('with the Procfile %j runs %j', (line, argv) => {
    expect(planned({ Procfile: line, 'composer.json': '{}' }).start).toEqual(argv)
  })

  test('without pages, or with a broken composer.json, fails and says so', () => {
    expect(failure({ 'composer.json': '{}' })).toMatchObject({ code: 'no_start' })
    expect(failure({ 'composer.json': '{', 'index.php': '' })).toMatchObject({ code: 'invalid_composer_json' })
  })

  test.each([
    ['^8.1', null],
    ['^7.4|^8.0', null],
    ['>=8.3', 'unsupported_version'],
    ['~8.1', null],
    ['~8.1.0', 'unsupported_version'],
    ['8.2.*', null],
    ['>=7.1,<8.0', 'unsupported_version'],
    ['nonsense', null],
  ])('that requires PHP %s on PHP 8.2.36: %s', (php, code) => {
    const files = { 'index.php': '', 'composer.json': { require: { php } } }
    const result = planOf(files, { versions: new Map([['php', '8.2.36']]) })
    expect(result.ok ? null : result.failure.code).toBe(code)
  })

  test('reads Composer’s ranges', () => {
    expect(composerRange('^7.4|~8.1@dev')).toBe('^7.4 || >=8.1.0 <8.999999.0')
  })
})
