import { lstat, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Command } from '../../../platform/command.ts'
import { folderRunnerName, staticFallbackFlag, staticServerName } from '../../../platform/toolchain.ts'
import type { ReleasePaths } from '../release/layout.ts'

/** The folder that a release serves, by its path without links and as the app knows it, or the reason why it has none. */
export type SiteFolder =
  | { readonly ok: true; readonly folder: string; readonly name: string }
  | { readonly ok: false; readonly message: string }

/** A command that serves a static site. */
export interface SiteCommand {
  /** The folders of which it serves one, from the top of the sources. */
  readonly folders: readonly string[]
  /** True when a page answers for paths without a file. */
  readonly fallback: boolean
}

/** Returns how a command serves a static site; `null` for a command that is run. */
export function siteCommand({ argv }: Command): SiteCommand | null {
  const [name, ...args] = argv
  if (name === staticServerName) return withFallback(args, '.')
  const [within, inner, ...rest] = args
  if (name !== folderRunnerName || within === undefined || inner !== staticServerName) return null
  return withFallback(rest, within)
}

function withFallback(args: readonly string[], within: string): SiteCommand {
  const fallback = args[0] === staticFallbackFlag
  return { folders: (fallback ? args.slice(1) : args).map((folder) => join(within, folder)), fallback }
}

/**
 * Finds the folder of a static site: the one that the command names, or of several the first that has an index.html,
 * because only a build shows where it puts a site. A link may lead to it, but not out of the release.
 */
export async function findSiteFolder({ source }: ReleasePaths, folders: readonly string[]): Promise<SiteFolder> {
  const [only] = folders
  if (only === undefined) return { ok: false, message: `${staticServerName}: name the folder of the site` }
  const named = folders.length === 1 ? only : await firstWithIndex(source, folders)
  if (named === undefined) {
    const names = folders.map((name) => `${name}/`).join(', ')
    const message = `The build made no index.html in ${names}. If this is no static site, say how the app starts.`
    return { ok: false, message }
  }
  const folder = await folderWithin(source, named)
  if (folder === null || !(await lstat(folder)).isDirectory()) {
    return { ok: false, message: `${named}: there is no such folder in the sources of the app` }
  }
  return { ok: true, folder, name: named }
}

/** A folder outside of the sources is passed over: whether it has an index.html is not for the app to know. */
async function firstWithIndex(source: string, folders: readonly string[]): Promise<string | undefined> {
  for (const name of folders) {
    const folder = await folderWithin(source, name)
    const index = folder === null ? null : await lstat(join(folder, 'index.html')).catch(() => null)
    if (index !== null) return name
  }
  return undefined
}

/** Returns the path of a folder without links; null when there is none within the sources. */
async function folderWithin(source: string, name: string): Promise<string | null> {
  const root = await realpath(source)
  const folder = await realpath(join(source, name)).catch(() => null)
  return folder === root || folder?.startsWith(root + sep) === true ? folder : null
}
