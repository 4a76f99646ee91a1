import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { loadConfig } from '../../../server/src/platform/config.ts'
import { plansForTier, requestsPerHour, shippedPlans } from '../../../server/src/platform/plans.ts'
import { prefix } from '../../harness/temporary.ts'

async function withPlansFile<T>(text: string, work: (path: string) => T): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), prefix))
  const path = join(directory, 'plans.json')
  await writeFile(path, text)
  try {
    return work(path)
  } finally {
    await rm(directory, { recursive: true })
  }
}

it('offers each tier the plans that list it', () => {
  expect(plansForTier(shippedPlans, 'free')).toEqual(['free', 'starter'])
  expect(plansForTier(shippedPlans, 'enterprise')).toEqual(['free', 'starter', 'pro', 'enterprise'])
})

it('gives the tiers the limits of the specification', () => {
  expect(requestsPerHour(shippedPlans, 'free')).toBe(1_000)
  expect(requestsPerHour(shippedPlans, 'pro')).toBe(10_000)
})

it("uses an operator's plans instead of the shipped plans", async () => {
  const own = { ...shippedPlans, free: { ...shippedPlans['free'], apps: 1 } }
  await withPlansFile(JSON.stringify(own), (path) => {
    expect(loadConfig({}, { FAIRLEAD_PLANS_FILE: path }).plans['free']?.apps).toBe(1)
  })
})

it("allows an app the disk space of its plan, at most FAIRLEAD_APP_MB, and by default twice a release's", async () => {
  const { app_gb: _, ...silent } = shippedPlans.free
  await withPlansFile(JSON.stringify({ ...shippedPlans, silent }), (path) => {
    const sizes = (environment: Record<string, string>) => {
      const { plans } = loadConfig({}, { FAIRLEAD_PLANS_FILE: path, ...environment })
      return [plans['free']?.app_gb, plans['pro']?.app_gb, plans['silent']?.app_gb]
    }
    expect(sizes({})).toEqual([8, 20, 8])
    expect(sizes({ FAIRLEAD_RELEASE_MB: '100' })).toEqual([8, 20, 0.2])
    expect(sizes({ FAIRLEAD_APP_MB: '10000' })).toEqual([8, 10, 8])
    expect(sizes({ FAIRLEAD_RELEASE_MB: '100', FAIRLEAD_APP_MB: '120' })).toEqual([0.12, 0.12, 0.12])
  })
  expect(loadConfig({}, {}).plans['free']?.app_gb).toBe(8)
})

it('reports the errors in a file of plans', async () => {
  await withPlansFile(JSON.stringify({ free: { ...shippedPlans['free'], apps: -1 } }), (path) => {
    expect(() => loadConfig({}, { FAIRLEAD_PLANS_FILE: path })).toThrow(/FAIRLEAD_PLANS_FILE\.free\.apps/)
  })
  await withPlansFile(JSON.stringify({ ...shippedPlans, free: { ...shippedPlans.free, app_gb: 0 } }), (path) => {
    expect(() => loadConfig({}, { FAIRLEAD_PLANS_FILE: path })).toThrow(/FAIRLEAD_PLANS_FILE\.free\.app_gb/)
  })
  await withPlansFile('{', (path) => {
    expect(() => loadConfig({}, { FAIRLEAD_PLANS_FILE: path })).toThrow(/cannot be read as JSON/)
  })
  await withPlansFile(JSON.stringify({ free: shippedPlans['free'] }), (path) => {
    expect(() => loadConfig({}, { FAIRLEAD_PLANS_FILE: path })).toThrow(/pro must be there/)
  })
})
