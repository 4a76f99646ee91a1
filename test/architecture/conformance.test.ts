import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { operations } from '../../server/src/contract/operations.ts'

const suite = fileURLToPath(new URL('../api', import.meta.url))

/** Returns the file with the tests of an operation: `api-keys/create.test.ts` for `apiKeys.create`. */
const fileOf = (name: string) =>
  `${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replace('.', '/')}.test.ts`

it.each(operations)('$name has a file of tests, named by its method and path', async ({ name, method, path }) => {
  expect(await readFile(join(suite, fileOf(name)), 'utf8')).toContain(`describe('${method} ${path}', `)
})

it('the folders hold nothing else', async () => {
  const found = (await readdir(suite, { recursive: true })).filter((path) => path.includes('/'))
  expect(found.sort()).toEqual(operations.map(({ name }) => fileOf(name)).sort())
})
