import { existsSync } from 'node:fs'
import { assetFile } from '../own-files.ts'

/**
 * Returns the file with the filter of system calls for this architecture; `null` when there is none. The filter is compiled
 * by `scripts/seccomp/compile.py`, and denies what Docker's default profile denies.
 */
export function filterFile(): string | null {
  const file = assetFile(`seccomp/${process.arch}.bpf`)
  return process.platform === 'linux' && existsSync(file) ? file : null
}
