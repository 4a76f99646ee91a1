import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { createBench, untilState } from '../../harness/runtimes/support.ts'

const apps = 10
const watchedSeconds = 6
/** Per app. The exit watch checks twice a second; a poll every 25 ms would read 40 times. */
const mostReadsPerSecond = 8
/** All apps share checks of the machine's processes, some seconds apart. Each check reads two files of a process. */
const mostReadsOfProcess = 8

/** Counts the machine's processes. Other tests start and end some of them. */
const processCount = async () => (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).length

/** Returns how often this process reads a file or a socket in `watchedSeconds`, in which the test does nothing. */
async function readsWhileIdle(): Promise<number> {
  const count = async () => Number(/^syscr: (\d+)$/m.exec(await readFile('/proc/self/io', 'utf8'))?.[1])
  const before = await count()
  await sleep(watchedSeconds * 1000)
  return (await count()) - before
}

it('a runtime that has adopted idle apps reads few of their files', async () => {
  const bench = await createBench()
  try {
    const earlier = bench.newRuntime()
    const handles = await Promise.all(
      Array.from({ length: apps }, async () => {
        const release = await bench.release(earlier, 'node-server')
        const handle = await bench.start(earlier, release, ['node', 'server.js'])
        await untilState(earlier, handle, 'listening')
        return handle
      }),
    )
    const withNone = await readsWhileIdle()
    const runtime = bench.newRuntime()
    for (const handle of handles) runtime.instances.watch(handle, () => undefined)
    // The rest of the machine adds reads, so the quietest of several turns counts.
    const excess: number[] = []
    while (excess.length < 4 && Math.min(...excess) >= 0) {
      const processes = await processCount()
      const withAll = await readsWhileIdle()
      const shared = mostReadsOfProcess * Math.max(processes, await processCount())
      excess.push(withAll - withNone - mostReadsPerSecond * watchedSeconds * apps - shared)
    }
    expect(Math.min(...excess)).toBeLessThan(0)
  } finally {
    await bench.dispose()
  }
})
