import minVersion from 'semver/ranges/min-version.js'
import validRange from 'semver/ranges/valid.js'

/*
 * Commands that build plans use by name, so that a plan does not depend on the runtime.
 */

/** A static site: `fairlead-static <folder>…`. A runtime starts no process for it: the gateway serves the folder. */
export const staticServerName = 'fairlead-static'

/**
 * For a site whose routes exist only in the browser: `fairlead-static --spa <folder>…`. Servers that do not know the
 * flag take it for a folder without an index.html.
 */
export const staticFallbackFlag = '--spa'

/** The command in a container image: its entry point and arguments. */
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

/** A build plan may ask for these in a specific version. */
export type ToolName = 'node' | 'npm' | 'pnpm' | 'yarn' | 'bun' | 'deno'

/** The runtime chooses a version, and installs it when the server has another. */
export interface ToolRequest {
  readonly tool: ToolName
  /** As npm writes it; `*` for any. */
  readonly range: string
  /** For the build log: `"engines.node" in package.json`. */
  readonly from: string
  /** As Corepack writes it, such as `sha512.1f0e…`. */
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
