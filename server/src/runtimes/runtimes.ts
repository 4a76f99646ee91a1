import type { FileHandle } from 'node:fs/promises'
import type { OsUser } from '../platform/users.ts'
import type { CommandPaths } from './environment.ts'
import type { Release, Runtime } from './runtime.ts'

/**
 * Makes a release for another runtime from a release that the preferred runtime has built and keeps.
 *
 * @param options.output receives the progress; stays open
 * @throws RuntimeError `too_large` or `no_space`, or the codes of `Images.pull` for the base image
 */
export type PackRelease = (
  release: Release,
  options: { readonly output: FileHandle; readonly signal: AbortSignal },
) => Promise<void>

export interface Runtimes {
  /** Builds new releases from sources. Runs them unless `packs` exists. */
  readonly preferred: Runtime
  /** The runtime for programs that the preferred runtime has built, when the preferred runtime may run no program. */
  readonly packs: { readonly runtime: Runtime; readonly pack: PackRelease } | null
  readonly all: readonly Runtime[]
  /** Throws when this server does not have it. */
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

/** A release's folders at build time. Its image has the same paths, because build output may contain them. */
export interface ReleasePlace extends Omit<CommandPaths, 'cache'> {
  /** The folder that comes first on PATH. */
  readonly bin: string
}

/** A release from folders of this machine, as the parts of an image. All paths are absolute. */
export interface BuiltRelease {
  readonly place: ReleasePlace
  /** The owner of its files, and the user of its commands. */
  readonly user: OsUser
  /** Files and folders of the programs of the release, in addition to the system files. */
  readonly programs: readonly string[]
  /** The files for `/etc/passwd` and `/etc/group`; null when the release runs as the user of the server. */
  readonly accounts: { readonly passwd: string; readonly group: string } | null
}

/** Finds the content for an image of a release after its build. */
export type FindBuilt = (release: Release) => Promise<BuiltRelease>
