import { expect, test } from 'vitest'
import { budgetOf, exceeded } from '../../../scripts/test-counts.ts'

const docs = `
| command | what |
| \`npm test\` | runs tests |

| command | server starts | deployments | databases | pages |
|---|---|---|---|---|
| \`npm test\` | 100 | 1,200 | 300 | 0 |
`

test('a run within five per cent of the docs’ counts is within its budget, and larger counts are named', () => {
  const budget = budgetOf('npm test', docs)
  const counts = { 'server starts': 105, deployments: 1260, databases: 10, pages: 0 }
  expect(exceeded(counts, budget)).toEqual([])
  expect(exceeded({ ...counts, databases: 316, pages: 1 }, budget)).toEqual([
    expect.stringContaining('316 databases are more than the 300 of docs/testing.md'),
    expect.stringContaining('1 pages are more than the 0'),
  ])
})

test('a command without a row of numbers is an error', () => {
  expect(() => budgetOf('npm run test:system', docs)).toThrow('docs/testing.md has no row of numbers')
})
