import type { Command } from '../../platform/command.ts'
import type { ToolRequest } from '../../platform/toolchain.ts'
import type { StartOutput } from '../build-plan.ts'
import type { AppSettings } from '../fairlead-json.ts'
import type { PlanFailure, Result } from '../result.ts'
import type { SourceTree } from '../tree.ts'

/** To add a language, add a detector to the list. */
export interface Detector {
  readonly name: string
  /** The signs of such an app, in words for the failure `not_recognised`. */
  readonly recognises: string
  /** `detect` reads the text of these files; a `*` stands for any part of a name. */
  readonly files: readonly string[]
  /** The programs that the detector's commands need, unless a detection names fewer. */
  readonly tools: readonly Tool[]
  /** These variables name cache folders for build commands. */
  readonly caches: NonNullable<Command['caches']>
  readonly makesSites?: true
  /** Variables that depend on the limits of a build and an app. */
  readonly settings?: Command['settings']
  /** Reads the tree. Null for other apps; a failure ends the plan, in every detector. */
  detect(source: DetectorSource): Result<Detection> | null
}

export interface Tool {
  readonly program: string
  readonly missing: PlanFailure
  readonly packages?: string
  /** True for an additional version of a program, which may be absent because few apps request it. */
  readonly isExtra?: true
  /** The arguments print the version, which is the first group of the pattern. */
  readonly version?: { readonly args: readonly string[]; readonly pattern: RegExp }
  /** The arguments succeed if the program is complete for builds; otherwise `part` is missing. */
  readonly whole?: { readonly args: readonly string[]; readonly part: string }
}

export interface DetectorSource {
  readonly settings: AppSettings
  readonly repository: SourceTree
  readonly app: SourceTree
  /** True when `fairlead.json` or an earlier detector has a build. */
  readonly builds: boolean
  /** True when an earlier detector knows only a start for development. */
  readonly isRefused: boolean
  readonly versions: ReadonlyMap<string, string>
}

export interface Detection {
  /** The command that starts the app; null when no start is known. Then `advice` explains what to do. */
  readonly start: Command | null
  readonly advice?: string
  readonly toolchain?: readonly ToolRequest[]
  /** The failure, instead of `advice`, if no other detector knows a start. */
  readonly refused?: PlanFailure
  /**
   * Alternatives to `start`, with paths from the app's folder. The first whose files exist after the build replaces it.
   */
  readonly outputs?: readonly StartOutput[]
  /** Sentences for the build log: what was chosen and why, and warnings. */
  readonly notes?: readonly string[]
  /** The tools of the detector that this app needs; all tools when absent. */
  readonly programs?: readonly string[]
  /** The detectors whose packages are installed and whose builds run before this start. */
  readonly uses: 'all' | readonly string[]
  install?(options: { readonly builds: boolean }): Result<readonly InstallCommand[]>
  /** The build commands, unless `fairlead.json` has a build command. */
  readonly build?: readonly Command[]
  /** Variables for commands in `fairlead.json` and in a Procfile. */
  readonly env?: Command['env']
  readonly release?: Command
  /** True when the notes and the release command count even if another detector starts the app. */
  readonly always?: true
}

export interface InstallCommand {
  readonly command: Command
  /** `.` is the top of the repository; the app's folder when absent. */
  readonly folder?: string
}

/**
 * Returns a start by a shell line of ours, because only a shell can insert `$PORT`. Words of the app are `$1` and so
 * on.
 */
export const startLine = (line: string, ...words: readonly string[]): Command => ({
  argv: words.length === 0 ? ['/bin/sh', '-c', line] : ['/bin/sh', '-c', line, 'sh', ...words],
})

/**
 * Returns the shell command of an app: the format requires a shell, and "$PORT" and "&&" depend on it. The line stays
 * as the app wrote it and runs with the app's rights; Fairlead never composes such a line from other input.
 */
export const shellLine = (line: string): Command => ({ argv: ['/bin/sh', '-c', line] })
