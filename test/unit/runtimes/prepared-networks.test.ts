import { expect, it } from 'vitest'
import { type Networks, type Owner, preparableNetworks } from '../../../server/src/runtimes/process/network/networks.ts'

const app: Owner = { id: 'dep_1', kind: 'app' }
const build: Owner = { id: 'dep_1', kind: 'build' }

/** Networks that record their calls. */
function noted(fails = false) {
  const done: string[] = []
  let opened = 0
  const networks: Networks = {
    async open({ id, kind }) {
      opened += 1
      done.push(`open ${id}.${kind}`)
      await Promise.resolve()
      if (fails && opened === 1) throw new Error('no address is left')
      return { address: `10.0.0.${opened}`, forward: null, enter: [], ready: Promise.resolve() }
    },
    introduce: async (network) => network,
    hostsOf: () => null,
    neighbours: null,
    enterThatOf: () => [],
    redirect: async () => undefined,
    remove: async ({ id, kind }) => void done.push(`remove ${id}.${kind}`),
    publish: async () => undefined,
    sweep: async () => undefined,
    close: async () => void done.push('close'),
  }
  return { networks, done }
}

it('a prepared network is opened once, and given only to its owner', async () => {
  const { networks, done } = noted()
  const prepared = preparableNetworks(networks)
  prepared.prepare(build)
  prepared.prepare(app)
  prepared.prepare(app)
  expect((await prepared.open(app)).address).toBe('10.0.0.2')
  expect((await prepared.open({ id: 'dep_2', kind: 'app' })).address).toBe('10.0.0.3')
  expect((await prepared.open(build)).address).toBe('10.0.0.1')
  expect((await prepared.open(app)).address).toBe('10.0.0.4')
  expect(done).toEqual(['open dep_1.build', 'open dep_1.app', 'open dep_2.app', 'open dep_1.app'])
})

it('a prepared network that stays unused is removed like others, after it was opened', async () => {
  const { networks, done } = noted()
  const prepared = preparableNetworks(networks)
  prepared.prepare(app)
  await prepared.remove(app)
  expect(done).toEqual(['open dep_1.app', 'remove dep_1.app'])
  prepared.prepare(build)
  await prepared.close()
  expect(done.slice(2)).toEqual(['open dep_1.build', 'close'])
})

it('a network that is older than a minute, or could not be opened, is opened again', async () => {
  let now = 0
  const aged = preparableNetworks(noted().networks, () => now)
  aged.prepare(app)
  now = 60_000
  expect((await aged.open(app)).address).toBe('10.0.0.2')
  const failed = preparableNetworks(noted(true).networks)
  failed.prepare(app)
  expect((await failed.open(app)).address).toBe('10.0.0.2')
})
