import { expect, it } from 'vitest'
import { createLiveness } from '../../server/src/deployments/reconciler/liveness.ts'
import type { Handle } from '../../server/src/runtimes/runtime.ts'

const handle = (pid: number): Handle => ({ runtime: 'process', data: { pid } })

function watchedInstances() {
  const exits = new Map<unknown, () => void>()
  const stopped: unknown[] = []
  let woken = 0
  const liveness = createLiveness(
    {
      watch(instance, onExit) {
        exits.set(instance.data['pid'], onExit)
        return () => stopped.push(instance.data['pid'])
      },
    },
    () => {
      woken += 1
    },
  )
  return { liveness, exits, stopped, woken: () => woken }
}

it('an instance counts as alive until its runtime tells its end', () => {
  const { liveness, exits, woken } = watchedInstances()
  expect(liveness.isAlive('dep_1', handle(1))).toBe(true)
  exits.get(1)?.()
  expect(liveness.isAlive('dep_1', handle(1))).toBe(false)
  expect(woken()).toBe(1)
})

it('the new instance of a deployment is watched, and the old one no longer', () => {
  const { liveness, exits, stopped } = watchedInstances()
  liveness.isAlive('dep_1', handle(1))
  expect(liveness.isAlive('dep_1', handle(2))).toBe(true)
  exits.get(1)?.()
  expect(liveness.isAlive('dep_1', handle(2))).toBe(true)
  expect(stopped).toEqual([1])
})

it('watches of deployments that no longer run are ended', () => {
  const { liveness, stopped } = watchedInstances()
  liveness.isAlive('dep_1', handle(1))
  liveness.isAlive('dep_2', handle(2))
  liveness.keepOnly(new Set(['dep_2']))
  expect(stopped).toEqual([1])
})
