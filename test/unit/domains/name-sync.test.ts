import { expect, it } from 'vitest'
import { type GatewayName, startNameSync } from '../../../server/src/features/domains/name-sync.ts'
import type { ServedDomain } from '../../../server/src/features/domains/rows.ts'

const domain = (appId: string, name: string, redirectTo: string | null = null): ServedDomain => ({
  ...{
    id: `${appId} ${name}`,
    appId,
    projectId: 'p',
    accountId: 'a',
    name,
    isPrimary: redirectTo === null,
    redirectTo,
  },
})

/** A gateway that refuses another app's name, and fails while `broken`. */
function gateway(before: Readonly<Record<string, readonly GatewayName[]>> = {}) {
  const names = new Map(Object.entries(before))
  const calls: (readonly [string, readonly string[]])[] = []
  const errors: unknown[] = []
  const state = { rows: [] as readonly ServedDomain[], broken: false }
  const start = () =>
    startNameSync({
      served: async () => state.rows,
      async name(appId, given) {
        calls.push([appId, given.map(({ hostname }) => hostname)])
        if (state.broken) throw new Error('the gateway is away')
        const others = [...names].flatMap(([id, own]) => (id === appId ? [] : own.map(({ hostname }) => hostname)))
        expect(given.filter(({ hostname }) => others.includes(hostname))).toEqual([])
        names.set(appId, given)
      },
      before: new Map(Object.entries(before)),
      logger: { error: (problem: unknown) => void errors.push(problem) },
    })
  return { state, calls, names, errors, start }
}

it('the gateway has the rows’ names at the start, and no longer those of deleted rows', async () => {
  const { state, names, start } = gateway({ gone: [{ hostname: 'old.test', redirectTo: null }] })
  state.rows = [domain('one', 'a.test'), domain('one', 'www.a.test', 'a.test')]
  const sync = await start()
  expect(Object.fromEntries(names)).toEqual({
    gone: [],
    one: [
      { hostname: 'a.test', redirectTo: null },
      { hostname: 'www.a.test', redirectTo: 'a.test' },
    ],
  })
  await sync.stop()
})

it('names that the gateway already has are not sent again', async () => {
  const { state, calls, start } = gateway({ one: [{ hostname: 'a.test', redirectTo: null }] })
  state.rows = [domain('one', 'a.test')]
  const sync = await start()
  expect(calls).toEqual([])
  await sync.stop()
})

it('a name that moves leaves one app before the other gets it, even in a swap', async () => {
  const { state, names, start } = gateway()
  state.rows = [domain('one', 'a.test'), domain('one', 'b.test'), domain('two', 'c.test')]
  const sync = await start()
  state.rows = [domain('one', 'a.test'), domain('one', 'c.test'), domain('two', 'b.test')]
  sync.wake()
  await expect.poll(() => names.get('two')).toEqual([{ hostname: 'b.test', redirectTo: null }])
  await expect.poll(() => names.get('one')?.map(({ hostname }) => hostname)).toEqual(['a.test', 'c.test'])
  await sync.stop()
})

it('an unavailable gateway gets retries until it has everything', async () => {
  const { state, names, errors, start } = gateway()
  state.broken = true
  state.rows = [domain('one', 'a.test')]
  const sync = await start()
  expect(errors.length).toBeGreaterThan(0)
  state.broken = false
  await expect.poll(() => names.get('one')).toEqual([{ hostname: 'a.test', redirectTo: null }])
  await sync.stop()
})
