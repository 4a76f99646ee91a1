import { closeSync } from 'node:fs'
import { list, read } from './proc-files.ts'

const closeOnExec = 0o2000000

/**
 * Closes the descriptors besides the standard ones that whoever started this process has left open for it. Node keeps only
 * the first sixteen from its children; the others would reach every app and build.
 */
export function closeInheritedDescriptors(): void {
  const open = (list('/proc/self/fd') ?? []).map(Number).filter((fd) => fd > 2)
  for (const fd of open) {
    const flags = /^flags:\s+([0-7]+)$/m.exec(read(`/proc/self/fdinfo/${fd}`) ?? '')?.[1]
    // Those that Node has opened itself are closed in its children.
    if (flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0) closeSync(fd)
  }
}

/** Returns how many descriptors this process may have open; infinity where the system does not tell. */
export const descriptorLimit = (): number => limitIn(/^Max open files\s+(\d+)/m)

/** Returns how many descriptors this process may allow others; infinity where the system does not tell. */
export const hardDescriptorLimit = (): number => limitIn(/^Max open files\s+\S+\s+(\d+)/m)

function limitIn(pattern: RegExp): number {
  const limit = pattern.exec(read('/proc/self/limits') ?? '')?.[1]
  return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit)
}
