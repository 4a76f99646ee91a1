import { describe, expect, it } from 'vitest'
import { type Files, planOf } from '../../harness/builds/planned.ts'

/** A text of this length takes minutes in quadratic time. */
const length = 200_000
const longestMs = 10_000

const versions = new Map([
  ['php', '8.2.0'],
  ['cargo', '1.80.0'],
  ['ruby', '3.1.0'],
  ['go', '1.22.0'],
  ['python3', '3.11.2'],
  ['mix', '1.14.0'],
  ['javac', '17.0.1'],
])

const lines = '\n'.repeat(length)
const spaces = ' '.repeat(length)
/** Each script runs the next one several times. */
const scripts = Object.fromEntries(
  [...'abcdefg'].map((_, at) => [at === 0 ? 'start' : `s${at}`, `npm run s${at + 1};`.repeat(50)]),
)

const texts: Readonly<Record<string, Files>> = {
  'go.mod of empty lines': { 'go.mod': lines },
  'Gemfile of empty lines': { Gemfile: lines, 'app.rb': '' },
  'Gemfile.lock of empty lines': { Gemfile: '', 'Gemfile.lock': lines, 'config.ru': '' },
  'requirements.txt of empty lines': { 'requirements.txt': lines, 'main.py': '' },
  '.npmrc of empty lines': { 'package.json': { scripts: { start: 'node a.js' } }, '.npmrc': lines },
  'Procfile with many spaces in a command': { Procfile: `web: a${spaces}b` },
  'Procfile with many slashes in a folder': { Procfile: `web: heroku-php-apache2 a${'/'.repeat(length)}b` },
  'Procfile with many variables': { Procfile: `web: ${'A=b '.repeat(length / 4)}` },
  'deno.json with many quotes': { 'deno.json': `"${'\\"'.repeat(length / 2)}` },
  'deno.json with many comments that do not end': { 'deno.json': '/* '.repeat(length / 3) },
  'module with many texts that do not end': {
    'requirements.txt': 'flask',
    'app.py': `${"\\'''\n".repeat(length / 5)}\\`,
  },
  'module with many star imports and calls': {
    'requirements.txt': 'flask',
    'app.py': `${'from a import *\n'.repeat(length / 32)}def create_app():\n ${'b() '.repeat(length / 8)}`,
  },
  'version of Python with many spaces': { '.python-version': `3.1${spaces}x`, 'main.py': '' },
  'version of Ruby with many digits': {
    Gemfile: 'ruby file: ".ruby-version"',
    '.ruby-version': '1'.repeat(length),
    'app.rb': '',
  },
  'version of PHP of any length': { 'composer.json': { require: { php: `>=${'v'.repeat(length)}` } }, 'index.php': '' },
  'version of Rust of any length': {
    'Cargo.toml': `[package]\nname = "a"\nrust-version = "${'v'.repeat(length)}"`,
    'src/main.rs': '',
  },
  'package.json whose scripts run each other many times': { 'package.json': { scripts } },
}

describe('is planned in linear time:', () => {
  it.each(Object.entries(texts))('a %s', (_, files) => {
    // Excludes the time of other programs on a busy machine.
    const begun = process.threadCpuUsage()
    planOf(files, { versions })
    expect(process.threadCpuUsage(begun).user / 1_000).toBeLessThan(longestMs)
  })
})
