import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { PlanRequest } from '../../../server/src/builds/build-plan.ts'
import { createPlanApart } from '../../../server/src/builds/planner.ts'
import { childrenOf } from '../../../server/src/platform/processes.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const { signal } = new AbortController()
const request: PlanRequest = { root: null, images: false, before: null }

async function app() {
  const directory = await temporaryDirectory()
  await writeFile(join(directory.path, 'package.json'), JSON.stringify({ scripts: { start: 'node .' } }))
  return directory
}

it('plans a repository in a separate process', async () => {
  await using directory = await app()
  const plans = createPlanApart()
  expect(await plans.begin('acc').finish(directory.path, request, signal)).toMatchObject({
    ok: true,
    plan: { kind: 'node' },
  })
  expect(await plans.begin('acc').finish(directory.path, { ...request, root: 'web' }, signal)).toMatchObject({
    ok: false,
    failure: { code: 'unknown_root' },
  })
})

it('a repository that takes too long fails with a reason', async () => {
  await using directory = await app()
  const failure = { code: 'plan_too_large', message: expect.stringContaining('Make them smaller') }
  expect(await createPlanApart(0.01).begin('acc').finish(directory.path, request, signal)).toMatchObject({
    ok: false,
    failure,
  })
})

it('plans a repository in another process when the kernel kills the first for lack of memory', async () => {
  await using directory = await app()
  const plans = createPlanApart()
  const plan = plans.begin('acc')
  const planner = () => childrenOf(process.pid).find(({ title }) => title.includes('planner.mjs'))
  const work = () => childrenOf(planner()?.pid ?? 0)[0]
  await expect.poll(work).toBeDefined()
  process.kill(work()?.pid ?? 0, 'SIGKILL')
  await expect.poll(planner).toBeUndefined()
  expect(await plan.finish(directory.path, request, signal)).toMatchObject({ ok: true, plan: { kind: 'node' } })
})

it('a plan ends when its deployment is canceled, and a missing folder is an error of the server', async () => {
  await using directory = await app()
  const canceled = new AbortController()
  const planned = createPlanApart().begin('acc').finish(directory.path, request, canceled.signal)
  canceled.abort(new Error('canceled'))
  await expect(planned).rejects.toThrow('canceled')
  await expect(createPlanApart().begin('acc').finish(join(directory.path, 'missing'), request, signal)).rejects.toThrow(
    /planning failed.*ENOENT/s,
  )
})

it('few processes wait for a repository, and they end when none comes', async () => {
  await using directory = await app()
  const plans = createPlanApart()
  const waiting = () => childrenOf(process.pid).filter(({ title }) => title.includes('planner.mjs')).length
  const begun = Array.from({ length: 5 }, () => plans.begin('acc'))
  expect(waiting()).toBe(2)
  const made = await Promise.all(begun.slice(0, 4).map((plan) => plan.finish(directory.path, request, signal)))
  expect(made.every(({ ok }) => ok)).toBe(true)
  const unneeded = plans.begin('acc')
  expect(waiting()).toBe(1)
  for (const plan of [...begun, unneeded]) plan.end()
  await expect.poll(waiting).toBe(0)
})
