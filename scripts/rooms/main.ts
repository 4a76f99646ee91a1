import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { picture } from './picture.ts'
import { violationsOf } from './rules.ts'
import { type SourceFile, scan } from './scan.ts'

/**
 * Writes the picture in docs/architecture.md from the table of rooms. With `--check` it writes nothing, and reports
 * each import that breaks a rule.
 */
const document = 'docs/architecture.md'
const marked = /<!-- rooms -->[\s\S]*<!-- \/rooms -->/
const skipped = /(?:^|\/)(?:node_modules|dist|lib|coverage|\.[^/]+)$|^action\/fresh-|^test\/corpus\/apps$/

const written = readFileSync(document, 'utf8')
const drawn = written.replace(marked, () => `<!-- rooms -->\n${picture()}\n<!-- /rooms -->`)
if (!process.argv.includes('--check')) writeFileSync(document, drawn)
else {
  const stale =
    written === drawn
      ? []
      : [`${document} differs from the table of rooms (scripts/rooms/table.ts): run npm run rooms and commit.`]
  const violations = [...stale, ...violationsOf(sources('.'))]
  process.stderr.write(violations.map((each) => `${each}\n`).join(''))
  if (violations.length > 0) process.exitCode = 1
}

/** Reads all sources below a folder, except built and installed files and examples of users' code. */
function sources(folder: string): SourceFile[] {
  return readdirSync(folder, { withFileTypes: true })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) return skipped.test(path) ? [] : sources(path)
      return /\.[cm]?[jt]sx?$/.test(path) ? [scan(path, readFileSync(path, 'utf8'))] : []
    })
}
