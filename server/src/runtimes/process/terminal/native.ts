import { createRequire } from 'node:module'

/** The compiled part of node-pty. Its JavaScript is of no use here: it starts the process itself, outside of any sandbox. */
interface Native {
  open(columns: number, rows: number): { readonly master: number; readonly slave: number }
  resize(descriptor: number, columns: number, rows: number): void
}

const file = `@lydell/node-pty-${process.platform}-${process.arch}/pty.node`
const require = createRequire(import.meta.url)

/** True when this machine has the part: it is made for Linux and macOS, and may be left out of an installation. */
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
 * Opens both sides of a terminal. Neither is closed in the processes that are started meanwhile (they lack O_CLOEXEC): only a
 * process that starts no other one may call it.
 */
export const openPseudoterminal: Native['open'] = (columns, rows) => native().open(columns, rows)

export const resizePseudoterminal: Native['resize'] = (descriptor, columns, rows) =>
  native().resize(descriptor, columns, rows)
