import minVersion from 'semver/ranges/min-version.js'
import validRange from 'semver/ranges/valid.js'

/*
 * Commands that build plans use by name, so that a plan does not depend on the runtime.
 */

/**
 * Stands for a static site: `fairlead-static <folder>…`. A runtime starts no process for it: the gateway serves the
 * folder.
 */
export const staticServerName = 'fairlead-static'

/**
 * The flag for a site whose routes exist only in the browser: `fairlead-static --spa <folder>…`. Servers that do not
 * know the flag take it for a folder without an index.html.
 */
export const staticFallbackFlag = '--spa'

/** Stands for the command in a container image: its entry point and arguments. */
export const imageCommandName = 'fairlead-image'

/**
 * Runs a command in a folder of the release, whose installed packages are on the PATH: `fairlead-in <folder>
 * <command>…`. Every runtime puts it on the PATH of builds and apps, besides Node and the package managers.
 */
export const folderRunnerName = 'fairlead-in'

/**
 * Serves an app in PHP on `PORT`: `fairlead-php <folder>`. A path without a file goes to the folder's `index.php`;
 * files whose names begin with a dot are not served.
 */
export const phpServerName = 'fairlead-php'

/** Installs a Python lock file's packages into `.venv`, with pip: `fairlead-python-lock <file>`. */
export const pythonLockName = 'fairlead-python-lock'

/** The programs that a build plan may ask for in a specific version. */
export type ToolName = 'node' | 'npm' | 'pnpm' | 'yarn' | 'bun' | 'deno'

/**
 * A program that an app asks for. The runtime chooses a version, and installs it when the server has another version.
 */
export interface ToolRequest {
  readonly tool: ToolName
  /** A range of versions as npm writes them; `*` for any. */
  readonly range: string
  /** The source of the request, for the build log: `"engines.node" in package.json`. */
  readonly from: string
  /** The hash of the program's package, such as `sha512.1f0e…`, as Corepack writes it. */
  readonly hash?: string
}

/**
 * True for a version or range of Yarn 2 and later, also `berry` and `stable`. Yarn 2 is a different package from Yarn
 * 1.
 */
export function isModernYarn(version: string): boolean {
  if (validRange(version) === null) return version !== 'classic'
  return (minVersion(version)?.major ?? 0) >= 2
}
