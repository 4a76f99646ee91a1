import { chmodSync, existsSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isRoot, prefix } from './temporary.ts'

/**
 * The number of an architecture for seccomp, and of its system call `socket`: linux/audit.h and the tables of system
 * calls.
 */
const architectures: Readonly<Record<string, readonly [number, number]>> = {
  x64: [0xc000003e, 41],
  arm64: [0xc00000b7, 198],
}
const netlink = 16
const notSupported = 97
const bubblewrap = '/usr/bin/bwrap'

/**
 * Returns a program that runs another program without netlink sockets. A Chromium that notices network changes aborts
 * its requests with `ERR_NETWORK_CHANGED`. Only tests that run as root with bubblewrap make networks; otherwise it
 * returns the program itself.
 */
export function withoutNetlink(program: string): string {
  const architecture = architectures[process.arch]
  if (architecture === undefined || !existsSync(bubblewrap) || !isRoot) return program
  const folder = mkdtempSync(join(tmpdir(), prefix))
  const [filter, wrapper] = [join(folder, 'filter'), join(folder, 'program')]
  writeFileSync(filter, filterOf(...architecture))
  writeFileSync(wrapper, `#!/bin/sh\nexec ${bubblewrap} --dev-bind / / --seccomp 9 ${program} "$@" 9<${filter}\n`)
  chmodSync(folder, 0o755)
  chmodSync(wrapper, 0o755)
  return wrapper
}

/** Returns a seccomp(2) filter in classic BPF: `socket` of the family netlink fails, everything else is allowed. */
function filterOf(architecture: number, socket: number): Buffer {
  const [load, jumpIfEqual, answer] = [0x20, 0x15, 0x06]
  const steps: readonly (readonly [code: number, ifTrue: number, ifFalse: number, value: number])[] = [
    [load, 0, 0, 4],
    [jumpIfEqual, 0, 5, architecture],
    [load, 0, 0, 0],
    [jumpIfEqual, 0, 3, socket],
    [load, 0, 0, 16],
    [jumpIfEqual, 0, 1, netlink],
    [answer, 0, 0, 0x0005_0000 + notSupported],
    [answer, 0, 0, 0x7fff_0000],
  ]
  return Buffer.concat(
    steps.map(([code, ifTrue, ifFalse, value]) => {
      const step = Buffer.alloc(8)
      step.writeUInt16LE(code, 0)
      step.writeUInt8(ifTrue, 2)
      step.writeUInt8(ifFalse, 3)
      step.writeUInt32LE(value, 4)
      return step
    }),
  )
}
