import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { createVitest } from 'vitest/node'
import { type Outcome, securityTable, withTable } from '../../harness/attacks/table.ts'

/**
 * `npm run hostile [-- --write]`: runs every attack in every mode, and prints attempted and held. The exit status is 1
 * when an attack succeeded or could not be tried, or when the table of docs/attacks.md differs; `--write` writes the
 * table.
 *
 * `npm run hostile -- --table` tries nothing. It writes the table for the case that all attacks fail, which the next
 * full run checks.
 */
const page = fileURLToPath(new URL('../../../docs/attacks.md', import.meta.url))

process.env['HOSTILE_MODES'] = 'all'
const isTableAlone = process.argv.includes('--table')
const filters = ['test/system/attacks', 'test/long/attacks']
const vitest = await createVitest('test', { watch: false, maxWorkers: 1, project: ['system', 'long'] })
await (isTableAlone ? vitest.collect(filters, { staticParse: false }) : vitest.start(filters))
const outcomes: Outcome[] = []
for (const module of vitest.state.getTestModules()) {
  for (const test of module.children.allTests()) {
    const { attack } = test.meta()
    if (attack !== undefined) outcomes.push({ ...attack, held: isTableAlone || test.result().state === 'passed' })
  }
}
await vitest.close()

const held = outcomes.filter((outcome) => outcome.held).length
console.log(isTableAlone ? `${outcomes.length} attacks` : `${outcomes.length} attacks attempted, ${held} held`)
const text = await readFile(page, 'utf8')
const current = withTable(text, securityTable(outcomes))
if (held < outcomes.length || outcomes.length === 0) process.exitCode = 1
else if (isTableAlone || process.argv.includes('--write')) await writeFile(page, current)
else if (text !== current) {
  console.error('The table of docs/attacks.md differs from the outcomes. Run npm run hostile -- --table')
  process.exitCode = 1
}
