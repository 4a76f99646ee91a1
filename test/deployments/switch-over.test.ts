import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import type { DeployParts } from '../../server/src/deployments/job/parts.ts'
import { type SwitchRequest, switchOver } from '../../server/src/deployments/job/switch-over.ts'
import { createWork } from '../../server/src/deployments/state/lock.ts'
import type { Upstream } from '../../server/src/gateway/gateway.ts'

const old: Upstream = { deploymentId: 'dep_old', host: '127.0.0.1', port: 1 }
const upstream: Upstream = { deploymentId: 'dep_new', host: '127.0.0.1', port: 2 }

/** A switch whose transaction breaks off, with a database that says afterwards whether it has committed. */
async function switchThatBreaksOff(committed: boolean) {
  const visible = createServer((_, response) => response.setHeader('x-fairlead-deployment', 'dep_new').end())
  visible.listen(0, '127.0.0.1')
  await once(visible, 'listening')
  let routed: Upstream | null = old
  let asked = 0
  const retiring: Promise<unknown>[] = []
  const retired: string[] = []
  const parts = {
    appLock: (_: string, work: () => Promise<unknown>) => work(),
    gateway: {
      open: async () => undefined,
      drain: async () => undefined,
      current: () => routed,
      route: (_: string, to: Upstream | null) => {
        const before = routed
        routed = to
        return before
      },
    },
    settings: { drainMs: 0 },
    runner: { halt: async ({ id }: { id: string }) => retired.push(id) },
    releases: { placeOf: (deployment: { id: string }) => deployment, onDisk: async () => [] },
    work: createWork(),
    listenerOf: () => ({ host: '127.0.0.1', port: (visible.address() as AddressInfo).port }),
    database: { transaction: () => ({ execute: () => Promise.reject(new Error('connection lost')) }) },
    background: { add: (work: Promise<unknown>) => retiring.push(work) },
    store: {
      find: async (id: string) => ({ id, app_id: 'app_1', instance: null, status: 'superseded', retained: true }),
      prune: async () => [],
      newest: async () => [],
      runs: async () => {
        asked += 1
        if (asked < 3) throw new Error('not back yet')
        return committed
      },
    },
  }
  const request = {
    app: { id: 'app_1', address: { port: 1 } },
    deployment: { id: 'dep_new' },
    upstream,
    facts: { plan: {} },
  }
  const outcome = await switchOver(
    parts as unknown as DeployParts,
    request as unknown as SwitchRequest,
    new AbortController().signal,
  ).then(
    () => 'switched',
    (error: Error) => error.message,
  )
  visible.close()
  await Promise.all(retiring)
  return { outcome, routed, retired }
}

it('keeps the new release when the database has committed and could not say so', async () => {
  expect(await switchThatBreaksOff(true)).toEqual({ outcome: 'switched', routed: upstream, retired: ['dep_old'] })
})

it('gives the old release its address back when the database has not committed', async () => {
  expect(await switchThatBreaksOff(false)).toEqual({ outcome: 'connection lost', routed: old, retired: [] })
})
