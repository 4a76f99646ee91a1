import { expect, it } from 'vitest'
import { loadModule } from '../../../server/dashboard/src/data/load-module.ts'

/** Loads a module that does not arrive for some times. */
function lost(times: number) {
  let loads = 0
  const load = async () => {
    loads += 1
    if (loads <= times) throw new Error(`lost ${loads}`)
    return 'the module'
  }
  return { load, loads: () => loads }
}

it('a part of the dashboard is loaded again when the network took it away twice in a row', async () => {
  const { load } = lost(2)
  await expect(loadModule(load, async () => undefined)).resolves.toBe('the module')
})

it('it is loaded again only once the server is back', async () => {
  const { load, loads } = lost(1)
  const back = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  const loaded = loadModule(load, () => {
    asked.resolve()
    return back.promise
  })
  await asked.promise
  expect(loads()).toBe(1)
  back.resolve()
  await expect(loaded).resolves.toBe('the module')
})

it('a part that a server which answers does not have is an error in the end', async () => {
  await expect(loadModule(lost(9).load, async () => undefined)).rejects.toThrow('lost 4')
})
