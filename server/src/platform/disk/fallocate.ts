import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { SYSTEM_FOLDERS } from './folders.ts'

const timeoutMs = 60_000

/** Runs util-linux's `fallocate` (fallocate(1)), because Node cannot allocate or free space without writing. */
export async function fallocate(...args: readonly string[]): Promise<void> {
  await promisify(execFile)('fallocate', args, { timeout: timeoutMs, env: { PATH: SYSTEM_FOLDERS.join(':') } })
}
