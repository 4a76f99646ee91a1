import type { Network } from './network.ts'
import type { Networks, Owner } from './networks.ts'

/** Networks that can be opened before they are needed: it takes several programs. */
export interface NetworksAhead extends Networks {
  /** Begins to open a network, which the next `open` of this owner returns, if that comes soon. */
  prepare(owner: Owner): void
}

/** The network of one that was opened earlier may lead to resolvers or mirrors that have changed. */
const freshMs = 60_000

export function openAhead(networks: Networks, now: () => number = () => performance.now()): NetworksAhead {
  const prepared = new Map<string, { readonly opened: Promise<Network | null>; readonly since: number }>()
  /** One is made at a time, since what they are for is also starting. */
  let last: Promise<unknown> = Promise.resolve()
  const keyOf = ({ id, kind }: Owner) => `${id}.${kind}`
  const take = async (owner: Owner): Promise<Network | null> => {
    const found = prepared.get(keyOf(owner))
    prepared.delete(keyOf(owner))
    const network = (await found?.opened) ?? null
    return found !== undefined && now() - found.since < freshMs ? network : null
  }

  return {
    ...networks,

    prepare(owner) {
      if (prepared.has(keyOf(owner))) return
      // Without it, `open` tries again, and says why it fails.
      const opened = last
        .then(() => networks.open(owner))
        .then(async (network) => {
          await network.ready
          return network
        })
        .catch(() => null)
      last = opened
      prepared.set(keyOf(owner), { opened, since: now() })
    },

    open: async (owner) => (await take(owner)) ?? networks.open(owner),

    async remove(owner) {
      await take(owner)
      await networks.remove(owner)
    },

    async close() {
      await last
      await networks.close()
    },
  }
}
