import { randomUUID } from 'node:crypto'
import { constants, type FSWatcher, watch } from 'node:fs'
import { type FileHandle, lstat, open, opendir, realpath } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import type { Command } from '../../platform/command.ts'
import { folderRunnerName, staticFallbackFlag, staticServerName } from '../../platform/toolchain.ts'
import type { OsUser } from '../../platform/users.ts'
import type { LocalSite } from './handle.ts'
import { type LocalRelease, openToApp, type ReleasePaths } from './release-folders.ts'
import { isServed, removeRecord, writeRecord } from './site-record.ts'

/** Instances without a process: the gateway serves their folder. */
export interface Sites {
  /**
   * Starts to serve a release and returns the instance. Returns `null` when the release has no site, and writes the
   * reason to the output.
   */
  start(release: LocalRelease, command: SiteCommand, output: FileHandle): Promise<LocalSite | null>
  /** Opens the folder to the reader again, in case it was closed. */
  reopen(release: LocalRelease, site: LocalSite): Promise<void>
  isServed(site: LocalSite): Promise<boolean>
  /** Calls `onEnd` once, soon after the end. Returns a function that ends the watch. */
  watch(site: LocalSite, onEnd: () => void): () => void
  stop(site: LocalSite): Promise<void>
}

/**
 * @param reader the user of the gateway, which gets access by its group; `null` when it is the user of the server
 * @param fence called right before a site starts or ends; throws when another server has taken over
 */
export function createSites(reader: OsUser | null, fence: () => void): Sites {
  const reopen: Sites['reopen'] = async (release, { folder }) => {
    await openToApp(release.paths)
    await openWayTo(release, folder, reader)
  }
  return {
    async start(release, { folders, fallback }, output) {
      fence()
      await openToApp(release.paths)
      const found = await findSiteFolder(release.paths, folders)
      if (!found.ok) {
        await output.write(`${found.message}\n`)
        return null
      }
      const { folder, name } = found
      await openSite(release, folder, reader)
      const id = randomUUID()
      const record = await writeRecord(release.paths, id)
      const site: LocalSite = { id, folder, record, ...(fallback ? { fallback } : {}) }
      await reopen(release, site)
      await output.write(`serving ${name} as a static site\n`)
      return site
    },
    reopen,
    isServed,
    watch: watchSite,
    async stop(site) {
      fence()
      await removeRecord(site)
    },
  }
}

/**
 * The folder that a release serves (`folder` is its path without links, `name` its path for the app), or the reason why
 * it has none.
 */
export type SiteFolder =
  | { readonly ok: true; readonly folder: string; readonly name: string }
  | { readonly ok: false; readonly message: string }

export interface SiteCommand {
  /** The candidate folders, relative to the top of the sources. The release serves one of them. */
  readonly folders: readonly string[]
  readonly fallback: boolean
}

/** Returns the settings of a static site; `null` for a command that needs a process. */
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
 * Finds the folder of a static site. With several candidates, the first folder with an index.html wins, because only
 * the build decides where it puts a site. A link may lead to the folder, but not out of the release.
 */
async function findSiteFolder({ source }: ReleasePaths, folders: readonly string[]): Promise<SiteFolder> {
  const [only] = folders
  if (only === undefined) return { ok: false, message: `${staticServerName}: name the folder of the site` }
  const named = folders.length === 1 ? only : await firstWithIndex(source, folders)
  if (named === undefined) {
    const names = folders.map((name) => `${name}/`).join(', ')
    const message = `The build made no index.html in ${names}. If this is not a static site, say how the app starts.`
    return { ok: false, message }
  }
  const folder = await folderWithin(source, named)
  if (folder === null || !(await lstat(folder)).isDirectory()) {
    return { ok: false, message: `${named}: there is no such folder in the sources of the app` }
  }
  return { ok: true, folder, name: named }
}

/** Skips folders outside of the sources: the app must not learn whether they have an index.html. */
async function firstWithIndex(source: string, folders: readonly string[]): Promise<string | undefined> {
  for (const name of folders) {
    const folder = await folderWithin(source, name)
    const index = folder === null ? null : await lstat(join(folder, 'index.html')).catch(() => null)
    if (index !== null) return name
  }
  return undefined
}

/** Returns the path of a folder without links; null when the sources contain no such folder. */
async function folderWithin(source: string, name: string): Promise<string | null> {
  const root = await realpath(source)
  const folder = await realpath(join(source, name)).catch(() => null)
  return folder === root || folder?.startsWith(root + sep) === true ? folder : null
}

/** Non-blocking, because the open of a FIFO waits for a writer. */
const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** The rights that a group needs to pass a folder. */
const pass = 0o010
/** The rights that a group needs to read a file, or to list and pass a folder. */
const readFile = 0o040
const readFolder = 0o050

/**
 * Lets the group of the reader pass the folders that lead to a site. Does nothing when the reader is the user of the
 * server, or root, and needs no rights.
 *
 * @param folder the folder of the site in the sources
 */
async function openWayTo({ user }: Pick<LocalRelease, 'user'>, folder: string, reader: OsUser | null): Promise<void> {
  if (reader === null || user === null) return
  await give(folder, user, reader, { file: 0, folder: readFolder })
  // Everybody may pass the folders above the app's.
  let each = dirname(folder)
  while (await give(each, user, reader, { file: 0, folder: pass })) each = dirname(each)
}

/**
 * Lets the group of the reader read all files of a site that are not hidden. Changes only files of the user of the app:
 * a foreign file may have a second name in the folder.
 */
async function openSite({ user }: Pick<LocalRelease, 'user'>, folder: string, reader: OsUser | null): Promise<void> {
  if (reader === null || user === null) return
  const left = [folder]
  for (let each = left.pop(); each !== undefined; each = left.pop()) {
    if (!(await give(each, user, reader, { file: readFile, folder: readFolder }))) continue
    for await (const entry of await opendir(each)) {
      if (entry.name.startsWith('.') && entry.name !== '.well-known') continue
      const path = join(each, entry.name)
      if (entry.isDirectory()) left.push(path)
      else if (entry.isFile()) await give(path, user, reader, { file: readFile, folder: 0 })
    }
  }
}

/** Returns false when the owner does not match. */
async function give(
  path: string,
  owner: OsUser,
  reader: OsUser,
  rights: { readonly file: number; readonly folder: number },
): Promise<boolean> {
  const handle = await open(path, flags).catch(() => null)
  if (handle === null) return false
  try {
    const stats = await handle.stat()
    if (stats.uid !== owner.uid || !(stats.isFile() || stats.isDirectory())) return false
    const mode = (stats.mode & 0o777) | (stats.isFile() ? rights.file : rights.folder)
    if (stats.gid !== reader.gid) await handle.chown(owner.uid, reader.gid)
    if (mode !== (stats.mode & 0o7777)) await handle.chmod(mode)
    return true
  } finally {
    await handle.close()
  }
}

/**
 * Calls `onEnd` once, soon after the site ends or its folder disappears. Returns a function that ends the watch.
 * Without watches of the system, the gateway still reports an unreadable folder, and the next comparison finds the
 * rest.
 */
function watchSite(site: LocalSite, onEnd: () => void): () => void {
  const watchers: FSWatcher[] = []
  let isWatching = true
  const end = (): void => {
    isWatching = false
    for (const watcher of watchers) watcher.close()
  }
  const look = async (): Promise<void> => {
    if (!isWatching || (await isServed(site)) || !isWatching) return
    end()
    onEnd()
  }
  for (const folder of [dirname(site.record), site.folder]) {
    try {
      const watcher = watch(folder, { persistent: false }, () => void look())
      watcher.on('error', () => void look())
      watchers.push(watcher)
    } catch {
      // The site may have ended already: the look below finds out.
    }
  }
  // The look runs in a later turn, when the caller has the function that ends the watch.
  setImmediate(() => void look())
  return end
}
