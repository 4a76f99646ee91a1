import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { heldInMemory } from '../../../server/src/platform/processes/memory.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { isRoot } from '../../harness/temporary.ts'

if (!isRoot) skipped('memory of processes with mounts of their own', 'the tests do not run as root')

/** Starts a process in a separate mount namespace, and measures its memory after this command. */
async function heldAfter(script: string): Promise<number> {
  const child = spawn('unshare', ['--mount', 'sh', '-c', `${script}; echo done; exec sleep 1000`])
  try {
    await once(child.stdout, 'data')
    return await heldInMemory([child.pid ?? 0])
  } finally {
    child.kill('SIGKILL')
  }
}

it.runIf(isRoot)(
  'files in memory count for the process that owns their folder, and never the machine’s files',
  async () => {
    const fill = 'head -c 5000000 /dev/zero > /dev/shm/file'
    expect(await heldAfter(`mount -t tmpfs own /dev/shm; ${fill}`)).toBeGreaterThanOrEqual(5_000_000)
    // A sandbox during its creation has separate mounts, and still sees the machine's folders.
    const written = `/dev/shm/fairlead-test-${process.pid}`
    await writeFile(written, Buffer.alloc(5_000_000))
    try {
      expect(await heldAfter(`ls ${written} > /dev/null`)).toBe(0)
    } finally {
      await rm(written)
    }
  },
)
