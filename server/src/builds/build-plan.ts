import type { Command } from '../platform/command.ts'

/** The commands that turn a source tree into a running app. Made by the pure function `planBuild`. */
export interface BuildPlan {
  /** The name of the detector that recognised the app. */
  readonly kind: string
  /** Run in order in the source tree; the first that fails ends the build. */
  readonly build: readonly Command[]
  /** Runs once, when the build is done and before the release starts. */
  readonly release?: Command
  /** Runs for the life of the release. */
  readonly start: Command
  /** The path that tells whether the app is healthy; without one, any answer on `/` below 500 is. */
  readonly health?: string
}
