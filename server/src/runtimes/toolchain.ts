/*
 * Commands that every runtime puts on the PATH of builds and apps, besides Node and the package managers. Build plans use
 * them by name, so that a plan does not depend on the runtime.
 */

/** Serves static files: `fairlead-static <folder>…` listens on `PORT`. */
export const staticServerName = 'fairlead-static'

/** Runs a command in a folder of the release, with that folder's installed packages on the PATH: `fairlead-in <folder> <command>…`. */
export const folderRunnerName = 'fairlead-in'
