import { readFileSync, writeFileSync } from 'node:fs'
import { biomeSettings } from './biome.ts'
import { picture } from './picture.ts'

/**
 * Writes what is made from the table of rooms: biome.json, and the picture in docs/architecture.md. With `--check` it
 * writes nothing and fails when a file differs.
 */
const document = 'docs/architecture.md'
const marked = /<!-- rooms -->[\s\S]*<!-- \/rooms -->/

/** A list of texts in JSON, each on a line of its own. */
const listOfTexts = /\[\n\s+("[^"\n]*",?\s+)+\]/g
const onOneLine = (list: string): string =>
  list.replace(/\n\s+(?!\])/g, ' ').replace(/^\[\s+|\s+\]$/g, (end) => end.trim())

const files = new Map([
  ['biome.json', `${JSON.stringify(biomeSettings(), null, 2).replace(listOfTexts, onOneLine)}\n`],
  [document, readFileSync(document, 'utf8').replace(marked, () => `<!-- rooms -->\n${picture()}\n<!-- /rooms -->`)],
])
const isCheck = process.argv.includes('--check')
for (const [name, content] of files) {
  if (!isCheck) writeFileSync(name, content)
  else if (readFileSync(name, 'utf8') !== content) {
    process.stderr.write(
      `${name} differs from the table of rooms (scripts/rooms/table.ts). Run npm run rooms and commit.\n`,
    )
    process.exitCode = 1
  }
}
