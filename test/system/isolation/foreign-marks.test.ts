import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { isRunning } from '../../../server/src/platform/processes.ts'
import { findAppProcesses } from '../../../server/src/runtimes/leftovers.ts'
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

const folders = ({ directory }: Bench) => ({
  root: directory,
  apps: `${directory}/apps`,
  processMarks: `${directory}/process-marks`,
})
