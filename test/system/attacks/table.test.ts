import { expect, it } from 'vitest'
import type { Claim } from '../../harness/attacks/claim.ts'
import { securityTable } from '../../harness/attacks/table.ts'

it('the table says in which mode an attack is held, is not held, or cannot be tried', () => {
  const both: Claim = { id: 'both', topic: 'Limits', held: 'Both hold', notHeld: { user: 'A reason.' } }
  const one: Claim = { id: 'one', topic: 'Limits', held: 'One holds', modes: ['root'] }
  const outcomes = [
    { claim: both, mode: 'root', held: false },
    { claim: one, mode: 'root', held: true },
  ] as const
  expect(securityTable(outcomes).split('\n').slice(2)).toEqual([
    '| Limits | Both hold | no | no (1) |',
    '| Limits | One holds | yes | – |',
    '',
    '1. A reason.',
    '',
  ])
})

it('two attacks cannot have the same id', () => {
  const outcomes = ['One', 'Another'].map((held) => {
    return { claim: { id: 'same', topic: 'Limits', held }, mode: 'root', held: true } as const
  })
  expect(() => securityTable(outcomes)).toThrow('two attacks have the id same')
})
