import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { createDeploymentStore } from '../../../server/src/features/deployments/rows.ts'
import { createSwitchStep } from '../../../server/src/features/deployments/switch.ts'
import type { Upstream } from '../../../server/src/gateway/client.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { createKeyedLock } from '../../../server/src/platform/keyed-lock.ts'
import { testDatabase } from '../../harness/database.ts'
import { deploymentRow } from '../../harness/deployment-row.ts'

const old: Upstream = { deploymentId: 'dep_old', endpoints: [{ host: '127.0.0.1', port: 1 }] }
const upstream: Upstream = { deploymentId: 'dep_new', endpoints: [{ host: '127.0.0.1', port: 2 }] }
const app = { id: 'app_1', name: 'web', number: 1, address: { port: 1 } }

/**
 * Switches over in a transaction whose connection is lost at its commit. The third query afterwards tells whether the
 * database committed.
 *
 * @param opening the gateway's reply to the call that opens the app's address
 */
async function switchWithLostCommit(committed: boolean, opening: () => Promise<void> = async () => undefined) {
  await using cleanup = new AsyncDisposableStack()
  const visible = createServer((_, response) => response.setHeader('x-fairlead-deployment', 'dep_new').end())
  visible.listen(0, '127.0.0.1')
  await once(visible, 'listening')
  cleanup.defer(() => void visible.close())
  const { url } = cleanup.use(await testDatabase())
  const { db, close } = openDatabase({ connectionString: url, max: 2 }, pino({ level: 'silent' }))
  cleanup.defer(close)
  const apps = {
    lock: async () => undefined,
    nextGeneration: async () => 1,
    delete: async () => undefined,
    deleteProject: async () => undefined,
  }
  const store = createDeploymentStore({ database: db, apps })

  let routed: Upstream | null = old
  let asked = 0
  const retired: (string | undefined)[] = []
  const switchOver = createSwitchStep({
    lock: createKeyedLock(),
    gateway: {
      open: opening,
      route: async (_, to) => {
        const before = routed
        routed = to
        return before
      },
    },
    listenerOf: () => ({ host: '127.0.0.1', port: (visible.address() as AddressInfo).port }),
    database: db,
    store: {
      rows: { ...store.rows, find: async (id) => deploymentRow({ id, status: 'superseded' }) },
      jobs: {
        ...store.jobs,
        run: () => Promise.reject(new Error('connection lost')),
        runs: async () => {
          asked += 1
          vi.advanceTimersByTime(60_000)
          if (asked < 3) throw new Error('not back yet')
          return committed
        },
      },
    },
    announce: async () => undefined,
    urlOf: () => '',
    onServing: async () => undefined,
    retire: (_, previous) => retired.push(previous?.id),
  })
  const plan = { kind: 'node', build: [], start: { argv: ['node'] } } as const
  const instance = { runtime: 'process', data: {} }
  const request = { app, deployment: deploymentRow({ id: 'dep_new' }), upstream, facts: { plan, instance } }
  const outcome = await switchOver(request, new AbortController().signal).then(
    () => 'switched',
    (error: Error) => error.message,
  )
  return { outcome, routed, retired }
}

// Minutes pass while the database is unavailable. The test skips them.
beforeAll(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterAll(() => void vi.useRealTimers())

it('the new release keeps the address when the database committed and the response was lost, however long', async () => {
  expect(await switchWithLostCommit(true)).toEqual({ outcome: 'switched', routed: upstream, retired: ['dep_old'] })
})

it('the old release gets its address back when the database did not commit', async () => {
  expect(await switchWithLostCommit(false)).toEqual({ outcome: 'connection lost', routed: old, retired: [] })
})

it('an address that another program holds is reported with its port, and any other failure unchanged', async () => {
  const failing = (code: string) => () => Promise.reject(Object.assign(new Error(`no: ${code}`), { code }))
  const taken = await switchWithLostCommit(true, failing('EADDRINUSE'))
  expect(taken).toEqual({
    outcome: 'Port 1, the address of this app, is held by another program. Stop that program.',
    routed: old,
    retired: [],
  })
  const denied = await switchWithLostCommit(true, failing('EACCES'))
  expect(denied).toEqual({ outcome: 'no: EACCES', routed: old, retired: [] })
})

it('a gateway that does not answer is reported as the reason', async () => {
  const unreachable = () => Promise.reject(Object.assign(new Error('no'), { code: 'GATEWAY_UNREACHABLE' }))
  expect(await switchWithLostCommit(true, unreachable)).toEqual({
    outcome: expect.stringContaining('The gateway of this server does not answer'),
    routed: old,
    retired: [],
  })
})
