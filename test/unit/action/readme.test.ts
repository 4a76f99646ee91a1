import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { withTables } from '../../../scripts/action-readme.ts'

const read = (path: string) => readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), 'utf8')

test('the tables of the README match action.yml', () => {
  const readme = read('action/README.md')
  expect(withTables(readme, read('action.yml'))).toBe(readme)
})
