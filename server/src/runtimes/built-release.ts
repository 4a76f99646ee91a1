import type { OsUser } from '../platform/users.ts'
import type { CommandPaths } from './environment.ts'
import type { Release } from './runtime.ts'

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
