import type { FileHandle } from 'node:fs/promises'
import type { OsUser } from '../platform/users.ts'
import type { CommandPaths } from './environment.ts'
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

/** The places of a release that was built in folders of this machine, which it has in its image as well: what a build makes may name them. */
export interface ReleasePlace extends Omit<CommandPaths, 'cache'> {
  /** The folder of programs that comes first on PATH. */
  readonly bin: string
}

/** A release that was built in folders of this machine, as the parts of an image. All paths are absolute. */
export interface BuiltRelease {
  readonly place: ReleasePlace
  /** The owner of its files, that its commands run as. */
  readonly user: OsUser
  /** Files and folders of the programs that it runs with, besides the system's. */
  readonly programs: readonly string[]
  /** The files that it has as `/etc/passwd` and `/etc/group`; null where it runs as the user of the server. */
  readonly accounts: { readonly passwd: string; readonly group: string } | null
}

/** Finds what an image of a release is made of, once its build has ended. */
export type FindBuilt = (release: Release) => Promise<BuiltRelease>
