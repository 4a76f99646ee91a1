import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

test('the bundle contains no path of the machine that built it and nothing of the server’s validation', async () => {
  const bundle = await readFile(new URL('../../action/dist/index.js', import.meta.url), 'utf8')
  const root = new URL('../../', import.meta.url).pathname
  expect(bundle).not.toContain(root)
  expect(bundle).not.toMatch(/\bzod\b/)
})
