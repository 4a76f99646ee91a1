import { readdir } from 'node:fs/promises'
import { basename } from 'node:path'
import { expect, it } from 'vitest'
import { migrations } from '../../../server/src/platform/migrations/index.ts'

const steps = new URL('../../../server/src/platform/migrations/steps/', import.meta.url)

const files = async () => (await readdir(steps, { recursive: true })).filter((path) => path.endsWith('.ts')).sort()

it('every migration file is in the index under its name, in the order of the numbers', async () => {
  const names = (await files()).map((path) => basename(path, '.ts'))
  expect(Object.keys(migrations)).toEqual(names)
  const numbers = names.map((name) => Number(/^\d{4}(?=-)/.exec(name)?.[0]))
  expect(numbers).toEqual(names.map((_, at) => at + 1))
})

it('every name in the index has the step of its file', async () => {
  for (const path of await files()) {
    const [step] = Object.values((await import(new URL(path, steps).href)) as Record<string, { up: unknown }>)
    expect([path, migrations[basename(path, '.ts')]?.up]).toEqual([path, step?.up])
  }
})
