import type { Runtime } from './runtime.ts'

/** The runtimes of this server. */
export interface Runtimes {
  /** Builds and runs new releases. */
  readonly preferred: Runtime
  readonly all: readonly Runtime[]
  /** Returns the runtime that keeps a release or a handle. Throws when this server does not have it. */
  named(name: string): Runtime
}

export function createRuntimes(preferred: Runtime, others: readonly Runtime[] = []): Runtimes {
  const all = [preferred, ...others]
  return {
    preferred,
    all,
    named(name) {
      const found = all.find((runtime) => runtime.name === name)
      if (found === undefined)
        throw new Error(`This release needs the runtime "${name}", which this server does not have.`)
      return found
    },
  }
}
