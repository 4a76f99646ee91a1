import type { FileHandle } from 'node:fs/promises'
import type { Release, Runtime } from './runtime.ts'

/**
 * Makes a release of another runtime of one that the builder of the preferred runtime has built. The first one is kept.
 *
 * @param options.output receives the progress; stays open
 * @throws RuntimeError of the codes `too_large` and `no_space`, and those of `Images.pull` for the base of images
 */
export type PackRelease = (
  release: Release,
  options: { readonly output: FileHandle; readonly signal: AbortSignal },
) => Promise<void>

/** The runtimes of this server. */
export interface Runtimes {
  /** Builds new releases of sources, and runs them unless there is `packs`. */
  readonly preferred: Runtime
  /** The runtime that runs the programs of what the preferred one has built, where no program may run in that one. */
  readonly packs: { readonly runtime: Runtime; readonly pack: PackRelease } | null
  readonly all: readonly Runtime[]
  /** Returns the runtime that keeps a release or a handle. Throws when this server does not have it. */
  named(name: string): Runtime
}

export function createRuntimes(
  preferred: Runtime,
  others: readonly Runtime[] = [],
  packs: Runtimes['packs'] = null,
): Runtimes {
  const all = [preferred, ...others]
  return {
    preferred,
    packs,
    all,
    named(name) {
      const found = all.find((runtime) => runtime.name === name)
      if (found === undefined)
        throw new Error(`This release needs the runtime "${name}", which this server does not have.`)
      return found
    },
  }
}
