import type { Command } from '../../platform/command.ts'
import type { AppSettings } from '../source/fairlead-json.ts'
import type { PlanFailure, Result } from '../source/result.ts'
import type { SourceTree } from '../source/tree.ts'

/** A way in which an app can be built and started. Detectors are values: adding a language is adding one to the list. */
export interface Detector {
  readonly name: string
  /** How an app is recognised, in words for the failure `not_recognised`. */
  readonly recognises: string
  /** The files whose text `detect` reads. */
  readonly files: readonly string[]
  /** Programs that the machine must have when the detector's commands are used. */
  readonly tools: readonly Tool[]
  /** Variables for build commands that name folders of the build's cache. */
  readonly caches: NonNullable<Command['caches']>
  /** Reads the tree. Null when this is no such app; a failure ends the plan, whichever detector is used. */
  detect(source: DetectorSource): Result<Detection> | null
}

export interface Tool {
  readonly program: string
  readonly missing: PlanFailure
}

/** The input of a detector. */
export interface DetectorSource {
  readonly settings: AppSettings
  /** All files of the repository. */
  readonly repository: SourceTree
  /** The same files, seen from the app's folder. */
  readonly app: SourceTree
  /** True when `fairlead.json`, or a language earlier in the list, has a build. */
  readonly builds: boolean
  /** The version of the Node that apps run on, as in `process.versions.node`. */
  readonly nodeVersion: string
}

export interface Detection {
  /** Starts the app; null when nothing says how, which `advice` then explains. */
  readonly start: Command | null
  readonly advice?: string
  /** The detectors whose packages are installed and whose builds run before this start. */
  readonly uses: 'all' | readonly string[]
  /** Returns the commands that install packages, each with its folder. */
  install?(options: { readonly builds: boolean }): Result<readonly InstallCommand[]>
  /** Builds, unless `fairlead.json` has a command for that. */
  readonly build?: readonly Command[]
  /** Variables for commands that the owner names: of `fairlead.json` and of a Procfile. */
  readonly env?: Command['env']
  /** Runs once before the release starts. */
  readonly release?: Command
}

export interface InstallCommand {
  readonly command: Command
  /** A folder of the repository, `.` for its top; the app's folder when absent. */
  readonly folder?: string
}

/**
 * The line is the app's own shell command: the format says so, and "$PORT" and "&&" depend on it. It is handed on as the
 * app wrote it and runs with the app's rights; Fairlead never composes such a line from input of its own.
 */
export const shellLine = (line: string): Command => ({ argv: ['/bin/sh', '-c', line] })
