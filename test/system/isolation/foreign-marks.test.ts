import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { bootId, isRunning, ticksSinceBoot } from '../../../server/src/platform/processes.ts'
import { findAppProcesses } from '../../../server/src/running/app-processes.ts'
import { fromHandle } from '../../../server/src/runtimes/process/handle.ts'
import { type Bench, createBench, identities } from '../../harness/runtimes/support.ts'

/** Keeps starting processes that carry another release's id, which every visitor of that app can read. */
const imposter = (id: string) => `
  const env = { ...process.env, FAIRLEAD_DEPLOYMENT_ID: '${id}' }
  const { spawn } = require('node:child_process')
  const next = () => spawn('sleep', ['60'], { env, detached: true, stdio: 'ignore' }).on('exit', () => setTimeout(next, 20))
  for (let at = 0; at < 5; at += 1) next()`

describe.each(identities)('processes that carry another release’s id, as $name', ({ uids }) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await createBench()
  })
  afterAll(() => bench.dispose())

  test('do not count as the release’s, and neither end with it nor delay its end', async () => {
    const runtime = bench.newRuntime({ uids })
    const victim = await bench.release(runtime, 'node-server')
    const handle = await bench.start(runtime, victim, ['sleep', '1000'])
    const hostile = await bench.release(runtime, 'node-server')
    const attack = await bench.start(runtime, hostile, ['node', '-e', imposter(victim.id)])
    await vi.waitFor(async () => expect((await bench.processesOf(victim)).length).toBe(6), 30_000)

    const { pid } = fromHandle(handle)
    expect((await findAppProcesses(folders(bench))).get(victim.id)).toEqual([pid])
    await runtime.instances.stop(handle, { graceMs: 0 })
    await runtime.releases.halt(victim)
    expect(isRunning(fromHandle(handle))).toBe(false)
    expect(isRunning(fromHandle(attack))).toBe(true)
    expect(await bench.processesOf(victim)).toHaveLength(5)
    expect((await runtime.releases.list()).running).not.toContain(victim.id)
    await runtime.releases.halt(hostile)
    expect(await bench.processesOf(victim)).toEqual([])
  })
})

describe('a process of an earlier version of the server, which carries the plain id', () => {
  test('is found, until this version has made its marks', async () => {
    const bench = await createBench()
    const runtime = bench.newRuntime()
    const release = await bench.release(runtime, 'node-server')
    await bench.build(runtime, release, [['true']])
    const old = spawn('sleep', ['1000'], { env: { FAIRLEAD_DEPLOYMENT_ID: release.id }, stdio: 'ignore' })
    await vi.waitFor(async () => expect(await bench.processesOf(release)).toEqual([old.pid]), 30_000)
    const found = async (ticks: number) => {
      const stored = { key: '', since: { boot: bootId(), ticks } }
      await writeFile(folders(bench).processMarks, JSON.stringify(stored))
      return (await findAppProcesses(folders(bench))).get(release.id)
    }
    expect(await found(ticksSinceBoot() + 1)).toEqual([old.pid])
    expect(await found(0)).toBeUndefined()
    old.kill()
    await once(old, 'exit')
    await bench.dispose()
  })
})

const folders = ({ directory }: Bench) => ({
  root: directory,
  apps: `${directory}/apps`,
  processMarks: `${directory}/process-marks`,
})
