import { fileURLToPath } from 'node:url'
import { build } from 'vite'
import { expect, it } from 'vitest'

/** Each operation of the API takes about 100 bytes of the client. */
const limitBytes = 20 * 1024

it('the client is small and contains no validation library', async () => {
  const entry = fileURLToPath(import.meta.resolve('@fairlead/server/client'))
  const result = await build({
    logLevel: 'silent',
    configFile: false,
    build: { write: false, minify: true, lib: { entry, formats: ['es'] }, target: 'es2022' },
  })
  const outputs = [result].flat().flatMap((each) => ('output' in each ? each.output : []))
  const chunks = outputs.filter((output) => output.type === 'chunk')
  const modules = chunks.flatMap(({ moduleIds }) => moduleIds)
  expect(modules.filter((id) => /node_modules\/(?!@fairlead)/.test(id))).toEqual([])
  expect(modules.filter((id) => /resources|operations/.test(id))).toEqual([])
  expect(chunks.flatMap(({ imports }) => imports)).toEqual([])
  const bytes = chunks.reduce((sum, { code }) => sum + Buffer.byteLength(code), 0)
  expect(bytes).toBeGreaterThan(1000)
  expect(bytes).toBeLessThan(limitBytes)
})
