import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const page = readFileSync(`${root}/docs/extending.md`, 'utf8')
const examples = ['processes/extending/greeting.ts', 'unit/extending/dart.ts', 'unit/extending/memory-store.ts']
  .map((path) => readFileSync(`${root}/test/${path}`, 'utf8'))
  .join('\n')

const blocks = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = '']) => code)

it('finds the code of the page', () => {
  expect(blocks.length).toBeGreaterThan(4)
})

it.each(blocks)('shows code that the tests run: %s', (code) => {
  expect(examples).toContain(code)
})

const named = [...page.matchAll(/`((?:server|test|docs|scripts)\/[\w./-]+)`/g)].map(([, path = '']) => path)

it.each([...new Set(named)])('names %s, which exists', (path) => {
  expect(existsSync(`${root}/${path}`)).toBe(true)
})
