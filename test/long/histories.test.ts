import { expect, it } from 'vitest'
import { campaign } from './histories/histories.ts'

/*
 * `npm run test:long -- histories` continues where the last run of this seed ended. Variables: HISTORIES_SEED,
 * HISTORIES_OPERATIONS, HISTORIES_FAULTS, and HISTORIES_SHRINK, the minutes for shortening a failing history.
 */
const number = (name: string, otherwise: number) => Number(process.env[`HISTORIES_${name}`] ?? otherwise)

it('after concurrent operations and faults, no acknowledged change is lost, and everything settles', {
  timeout: 24 * 3_600_000,
}, async () => {
  const firstSeed = number('SEED', 1)
  const found = await campaign({
    file: `test-repeat/histories-${firstSeed}`,
    firstSeed,
    operations: number('OPERATIONS', 1_000),
    faults: number('FAULTS', 10),
    shrinkMs: number('SHRINK', 20) * 60_000,
    say: (line) => process.stdout.write(`${line}\n`),
  })
  expect(found).toBeNull()
})
