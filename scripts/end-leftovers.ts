import { readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Ends the processes that a run of tests leaves behind and removes its folders, when the run has ended, however it ended:
 * `node scripts/end-leftovers.ts RUN` waits for the end of its standard input, which the runner holds open. The folders of a run have
 * RUN in their names; its processes have such a folder in their command line, environment or working directory, or RUN as their
 * `TEST_RUN`.
 */

const run = process.argv[2] ?? ''
if (run === '') throw new Error('the run has no number')
const mark = `flt-${run}-`

process.stdin.resume().on('end', () => {
  // A process may start another one while this looks.
  let left = processes()
  for (let round = 0; round < 20 && left.length > 0; round += 1) {
    for (const pid of left) signal(pid)
    left = processes()
  }
  for (const parent of [tmpdir(), '/dev/shm']) {
    for (const name of list(parent).filter((each) => each.startsWith(mark))) {
      rmSync(join(parent, name), { recursive: true, force: true, maxRetries: 5 })
    }
  }
})

function processes(): number[] {
  return list('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid && isOfRun(pid))
}

function isOfRun(pid: number): boolean {
  const texts = [read(`/proc/${pid}/cmdline`), read(`/proc/${pid}/environ`), target(`/proc/${pid}/cwd`)]
  return texts.some((text) => text.includes(mark) || text.includes(`TEST_RUN=${run}\0`))
}

function signal(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

function list(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}

function target(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
