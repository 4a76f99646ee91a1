import type { Command } from '../../platform/command.ts'
import type { ToolRequest } from '../../platform/toolchain.ts'
import type { StartOutput } from '../build-plan.ts'
import type { AppSettings } from '../fairlead-json.ts'
import type { PlanFailure, Result } from '../result.ts'
import type { SourceTree } from '../tree.ts'

/** A way in which an app can be built and started. Detectors are values: adding a language is adding one to the list. */
export interface Detector {
  readonly name: string
  /** How an app is recognised, in words for the failure `not_recognised`. */
  readonly recognises: string
  /** The files whose text `detect` reads; a `*` stands for any part of one name. */
  readonly files: readonly string[]
  /** Programs that the machine must have when the detector's commands are used, unless a detection names fewer. */
  readonly tools: readonly Tool[]
  /** Variables for build commands that name folders of the build's cache. */
  readonly caches: NonNullable<Command['caches']>
  /** True when its builds may make a static site. */
  readonly makesSites?: true
  /** Variables that depend on the limits of a build and an app. */
  readonly settings?: Command['settings']
  /** Reads the tree. Null when this is no such app; a failure ends the plan, whichever detector is used. */
  detect(source: DetectorSource): Result<Detection> | null
}

export interface Tool {
  readonly program: string
  readonly missing: PlanFailure
  /** The packages of Debian that have it. */
  readonly packages?: string
  /** True for another version of a program, which few apps ask for: its absence is no lack. */
  readonly isExtra?: true
  /** Its arguments that print its version, and the pattern of that, whose first group is the version. */
  readonly version?: { readonly args: readonly string[]; readonly pattern: RegExp }
  /** Arguments with which it succeeds where it has all that builds need, and the name of the part that it lacks otherwise. */
  readonly whole?: { readonly args: readonly string[]; readonly part: string }
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
  /** True when an earlier detector knows a way to start that is for development alone. */
  readonly isRefused: boolean
  /** The versions of the machine's programs, as far as they are known. */
  readonly versions: ReadonlyMap<string, string>
}

export interface Detection {
  /** Starts the app; null when nothing says how, which `advice` then explains. */
  readonly start: Command | null
  readonly advice?: string
  /** The programs that the app asks for in versions of its own. */
  readonly toolchain?: readonly ToolRequest[]
  /** In place of `advice`, the failure of a plan in which no other detector says how the app starts. */
  readonly refused?: PlanFailure
  /** Starts of which the first whose files the build has made takes the place of `start`; paths from the app's folder. */
  readonly outputs?: readonly StartOutput[]
  /** Sentences for the build log: what was chosen and why, and warnings. */
  readonly notes?: readonly string[]
  /** The programs of the detector's tools that this app needs; all of them when absent. */
  readonly programs?: readonly string[]
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
  /** True when the notes and the release command count whichever detector says how the app starts. */
  readonly always?: true
}

export interface InstallCommand {
  readonly command: Command
  /** A folder of the repository, `.` for its top; the app's folder when absent. */
  readonly folder?: string
}

/** The start of an app is a line of ours for a shell, which alone can put `$PORT` into it; words of the app are `$1` and so on. */
export const startLine = (line: string, ...words: readonly string[]): Command => ({
  argv: words.length === 0 ? ['/bin/sh', '-c', line] : ['/bin/sh', '-c', line, 'sh', ...words],
})

/**
 * The line is the app's own shell command: the format says so, and "$PORT" and "&&" depend on it. It is handed on as the
 * app wrote it and runs with the app's rights; Fairlead never composes such a line from input of its own.
 */
export const shellLine = (line: string): Command => ({ argv: ['/bin/sh', '-c', line] })
