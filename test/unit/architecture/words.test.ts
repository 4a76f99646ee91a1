import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/*
 * The code, its tables, messages, tests and docs use the field's standard terms. This list has the replaced words, each
 * with its replacement. Only readers can judge words that also have a plain meaning, such as "work" and "plan".
 */
const replaced: readonly (readonly [say: string, not: RegExp])[] = [
  ['generation, desired state or transition', /wish/i],
  ['generation', /intent(?!i)/i],
  ['desired state', /what is wanted|of what (is|was) wanted/i],
  ['reconciler', /keeper/i],
  ['teardown', /put(s|ting)?[ _-]?away/i],
  ['abort or give up', /(leav(e|es|ing)|left)[ _-]?off/i],
  ['pending or unsettled', /doubt/i],
  ['deploy job', /deployer/i],
  ['what a function uses, instead of everything', /DeployParts/],
  ['full, or over its limit', /(?<![a-z])tired(?![a-z])/i],
  ['slots or queue', /(build|deploy|job|fair|free)[ _-]?places|places for (builds|jobs|transactions)/i],
  ['capabilities of the host', /(host|machine|sandbox|isolation)[ _-]?means|means of the (host|machine|server)/i],
]

/** A comment that begins with a clause has no subject. */
const headless = /^\s*(\/\/|\/\*\*?|\*)\s*(What|Who|Whom|Whoever|Whatever|Where|Whether)\b/

/** Names that others gave. */
const names: readonly (readonly [path: RegExp, name: RegExp])[] = [
  [/^server\/dashboard\/src\/router\.tsx$/, /defaultPreload: 'intent'/g],
  [/^server\/src\/features\/domains\/open-suffixes\.ts$/, /is-a-bookkeeper\.com/g],
]

/** The applications of the corpus stay as their generators made them. */
const exempt =
  /^(package-lock\.json|test\/corpus\/apps\/.*|action\/dist\/.*|test\/unit\/architecture\/words\.test\.ts)$/
const readable = /\.(ts|tsx|js|mjs|cjs|json|md|ya?ml|css|html|sh|sql|py|txt)$|(^|\/)Dockerfile$/

const files = spawnSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .stdout.split('\n')
  .filter((path) => readable.test(path) && !exempt.test(path))
  .flatMap((path) => {
    const text = read(path)
    return text === undefined ? [] : [{ path, lines: withoutNames(path, text).split('\n') }]
  })

function withoutNames(path: string, text: string): string {
  return names.reduce((rest, [at, name]) => (at.test(path) ? rest.replace(name, '') : rest), text)
}

/** Git still lists a file that is deleted but not committed yet. */
function read(path: string): string | undefined {
  try {
    return readFileSync(join(root, path), 'utf8')
  } catch {
    return undefined
  }
}

/** Returns the places where the name of a file or one of its lines matches. */
function find(pattern: RegExp, isSearched: (path: string) => boolean = () => true): string[] {
  return files
    .filter(({ path }) => isSearched(path))
    .flatMap(({ path, lines }) => [
      ...(pattern.test(path) ? [path] : []),
      ...lines.flatMap((line, index) =>
        pattern.test(line) ? [`${path}:${index + 1}  ${line.trim().slice(0, 120)}`] : [],
      ),
    ])
}

describe('words', () => {
  it('are searched in all parts of the repository', () => {
    const parts = new Set(files.map(({ path }) => path.split('/')[0]))
    expect([...parts]).toEqual(
      expect.arrayContaining(['server', 'receiver', 'action', 'demo', 'docs', 'test', 'scripts', 'README.md']),
    )
  })

  it.each(replaced)('say %s, not %s', (_, not) => {
    expect(find(not)).toEqual([])
  })
})

describe('comments', () => {
  it('begin with their subject', () => {
    expect(find(headless, (path) => /\.(ts|tsx|js|mjs|css)$/.test(path))).toEqual([])
  })
})
