import { AsyncLocalStorage } from 'node:async_hooks'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { tryStartLock } from '../../server/src/platform/start-lock.ts'

/** In its context, each call of a function that reads or changes files waits for its turn. */
const { turns } = vi.hoisted(() => ({
  turns: { current: undefined as AsyncLocalStorage<() => Promise<void>> | undefined },
}))
turns.current = new AsyncLocalStorage()

vi.mock('node:fs/promises', async (importOriginal) => {
  const original = await importOriginal<typeof import('node:fs/promises')>()
  const inTurn = Object.entries(original).map(([name, value]) => {
    if (typeof value !== 'function') return [name, value]
    const call = async (...args: unknown[]) => {
      if (!String(args[0]).startsWith('/proc')) await turns.current?.getStore()?.()
      return (value as (...given: unknown[]) => unknown)(...args)
    }
    return [name, call]
  })
  return Object.fromEntries(inTurn)
})

const abandoned = JSON.stringify({ pid: process.pid, startedAt: 'earlier', token: 'a' })

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'start-lock-'))
})
afterEach(() => rm(folder, { recursive: true }))

it('has one owner among many contenders', async () => {
  const path = join(folder, 'start.lock')
  const taken = await Promise.all(Array.from({ length: 20 }, () => tryStartLock(path)))
  const owners = taken.filter((release) => release !== null)
  expect(owners).toHaveLength(1)
  expect(await tryStartLock(path)).toBeNull()
  await owners[0]?.()
  expect(await tryStartLock(path)).not.toBeNull()
  expect(await readdir(folder)).toHaveLength(1)
})

it('is taken over from a process that has ended, or whose pid belongs to another now', async () => {
  const ended = spawn('sleep', ['0'])
  await once(ended, 'exit')
  const path = join(folder, 'start.lock')
  for (const content of [JSON.stringify({ pid: ended.pid, startedAt: '1', token: 'a' }), abandoned, '']) {
    await writeFile(`${path}.7`, content)
    const release = await tryStartLock(path)
    expect(release).not.toBeNull()
    expect(await tryStartLock(path)).toBeNull()
    await release?.()
    for (const name of await readdir(folder)) await rm(join(folder, name))
  }
})

/** Runs these at the same time, but one step of one of them after the other, in an order that follows from the seed. */
async function interleaved(seed: number, contenders: readonly ((step: () => Promise<void>) => Promise<void>)[]) {
  let state = seed
  const random = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((state / 2_147_483_648) * below)
  }
  const waiting: (() => void)[] = []
  let running = contenders.length
  const next = () => {
    running -= 1
    if (running > 0 || waiting.length === 0) return
    running = 1
    waiting.splice(random(waiting.length), 1)[0]?.()
  }
  const step = () =>
    new Promise<void>((resolve) => {
      waiting.push(resolve)
      next()
    })
  await Promise.all(contenders.map((each) => turns.current?.run(step, () => each(step).finally(next))))
}

it('has one owner at a time, in any order of take-overs from an ended process', async () => {
  for (let seed = 1; seed <= 150; seed++) {
    const path = join(folder, `${seed}`, 'start.lock')
    await mkdir(join(folder, `${seed}`))
    await writeFile(`${path}.1`, abandoned)
    const owners = new Set<number>()
    let taken = 0
    const contender = (id: number) => async (step: () => Promise<void>) => {
      for (let count = 0; count < 4; count++) {
        const release = await tryStartLock(path)
        if (release === null) continue
        taken += 1
        owners.add(id)
        expect([seed, ...owners]).toEqual([seed, id])
        await step()
        owners.delete(id)
        await release()
      }
    }
    await interleaved(seed, [1, 2, 3, 4].map(contender))
    expect(taken).toBeGreaterThan(0)
  }
})
