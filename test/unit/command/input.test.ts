import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import { textOfInput } from '../../../server/src/commands/client/input.ts'

it('a command says what it waits for on a silent pipe, and takes late input', async () => {
  const input = new PassThrough()
  const said = Promise.withResolvers<string>()
  const read = textOfInput('the key', { input, tell: said.resolve, afterMs: 1 })
  expect(await said.promise).toBe('waiting for the key on standard input, until its end')
  input.end('fl_1')
  expect(await read).toBe('fl_1')
})
