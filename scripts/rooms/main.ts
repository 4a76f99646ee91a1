import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { biomeSettings } from './biome.ts'
import { picture } from './picture.ts'

/**
 * Writes what is made from the table of rooms: biome.json, and the picture in docs/architecture.md. With `--check` it
 * writes nothing and fails when a file differs.
 */
const document = 'docs/architecture.md'
const marked = /<!-- rooms -->[\s\S]*<!-- \/rooms -->/

const files = new Map([
  ['biome.json', formatted('biome.json', JSON.stringify(biomeSettings()))],
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

/** Formats a text as `npm run check` expects it; Biome keeps the line breaks of JSON, so a text without any gets the shortest form. */
function formatted(name: string, text: string): string {
  const { status, stdout, stderr } = spawnSync('node_modules/.bin/biome', ['format', `--stdin-file-path=${name}`], {
    input: text,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`Biome cannot format ${name}: ${stderr}`)
  return stdout
}
