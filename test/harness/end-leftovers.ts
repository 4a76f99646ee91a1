import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('../../scripts/end-leftovers.ts', import.meta.url))

/** Ends this run's remaining processes and removes its folders when vitest has ended, even if vitest was killed. */
export default function setup(): void {
  // Each project of vitest loads this file.
  if (process.env['TEST_RUN_WATCHED'] !== undefined) return
  process.env['TEST_RUN_WATCHED'] = 'yes'
  // Its standard input ends with this process.
  const watch = spawn('node', [program, process.env['TEST_RUN'] ?? ''], {
    stdio: ['pipe', 'ignore', 'inherit'],
    detached: true,
  })
  watch.unref()
  // Every stream of a child is a socket. Its type does not show this.
  ;(watch.stdin as unknown as { unref(): void }).unref()
}
