import { createRequire } from 'node:module'

/**
 * The compiled part of node-pty. Its JavaScript part is useless here, because it starts the process itself, outside of
 * any sandbox.
 */
interface Native {
  open(columns: number, rows: number): { readonly master: number; readonly slave: number }
  resize(descriptor: number, columns: number, rows: number): void
}

const file = `@lydell/node-pty-${process.platform}-${process.arch}/pty.node`
const require = createRequire(import.meta.url)

/** True when this machine has the compiled part, which exists for Linux and macOS. An installation may lack it. */
export function hasPseudoterminals(): boolean {
  try {
    require.resolve(file)
    return true
  } catch {
    return false
  }
}

const native = (): Native => require(file) as Native

/**
 * Opens both sides of a terminal. Child processes inherit both descriptors, which lack O_CLOEXEC: only a process that
 * starts no other process may call this.
 */
export const openPseudoterminal: Native['open'] = (columns, rows) => native().open(columns, rows)

export const resizePseudoterminal: Native['resize'] = (descriptor, columns, rows) =>
  native().resize(descriptor, columns, rows)
