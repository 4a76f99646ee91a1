import { pino } from 'pino'
import { expect, it } from 'vitest'
import { createRenew } from '../../../server/src/deployments/reconciler/renew.ts'
import type { Upstream } from '../../../server/src/gateway/client.ts'
import type { Handle } from '../../../server/src/runtimes/runtime.ts'
import { deploymentRow, releaseOfRow as release } from '../../harness/deployment-row.ts'

const older: Handle = { runtime: 'process', data: { pid: 1 } }
const newer: Handle = { runtime: 'process', data: { site: 'id' } }
const plan = { kind: 'static', build: [], start: { argv: ['fairlead-static', '.'] } } as const
const row = deploymentRow({ id: 'dep_1', status: 'running', build_plan: plan, instance: older })
const old: Upstream = { deploymentId: 'dep_1', endpoints: [{ host: '127.0.0.1', port: 1 }] }
const site = [{ folder: '/data/site' }] as const

/** Renews the instance of the row, and returns the actions. */
async function actionsWhen(situation: { isCurrent?: boolean; isHealthy?: boolean; isRunning?: boolean } = {}) {
  const { isCurrent = false, isHealthy = true, isRunning = true } = situation
  const done: unknown[] = []
  const renew = createRenew({
    store: { jobs: { setInstance: async () => isRunning } },
    instances: {
      isCurrent: () => isCurrent,
      start: async () => {
        done.push('start')
        return newer
      },
      stop: async (_, handle) => void done.push(['stop', handle]),
    },
    gateway: { drain: async (upstream) => void done.push(['drain', upstream]) },
    routes: {
      async route(_, to, mayRoute) {
        const may = await mayRoute()
        if (may) done.push(['route', to.endpoints])
        return may
      },
    },
    checkHealth: async () => {
      if (isHealthy) return { instance: newer, endpoints: site }
      throw new Error('it is not healthy')
    },
    settings: { startTimeoutMs: 1_000, stableMs: 0, drainMs: 1_000 },
    logger: pino({ level: 'silent' }),
  })
  await renew(row, release, old, new AbortController().signal)
  return done
}

it('an instance of an older version ends after the new one has the address and the requests are finished', async () => {
  expect(await actionsWhen()).toEqual(['start', ['route', site], ['drain', old], ['stop', older]])
})

it('an instance of this version is left unchanged', async () => {
  expect(await actionsWhen({ isCurrent: true })).toEqual([])
})

it('the instance of an older version stays when the new instance is not healthy', async () => {
  expect(await actionsWhen({ isHealthy: false })).toEqual(['start'])
})

it('no instance gets a route when the release was stopped during the renewal', async () => {
  expect(await actionsWhen({ isRunning: false })).toEqual(['start', ['stop', newer]])
})
