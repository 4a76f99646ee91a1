import { randomUUID } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import type { OsUser } from '../../../platform/users.ts'
import { openToApp } from '../release/folders.ts'
import type { LocalRelease } from '../release/layout.ts'
import type { LocalSite } from '../release/local-instance.ts'
import { findSiteFolder, type SiteCommand } from './folder.ts'
import { openSite, openWayTo } from './opening.ts'
import { isServed, removeRecord, writeRecord } from './record.ts'
import { watchSite } from './watch.ts'

/** Static sites: instances without a process, of which the gateway answers from a folder. */
export interface Sites {
  /**
   * Begins to serve a release, and returns its instance; `null`, with the reason in the output, when it has no site.
   */
  start(release: LocalRelease, command: SiteCommand, output: FileHandle): Promise<LocalSite | null>
  /** Lets the reader into the folder again, should it have been closed. */
  reopen(release: LocalRelease, site: LocalSite): Promise<void>
  isServed(site: LocalSite): Promise<boolean>
  /** Calls `onEnd` once, soon after the site has ended. Returns a function that ends the watch. */
  watch(site: LocalSite, onEnd: () => void): () => void
  stop(site: LocalSite): Promise<void>
}

/**
 * @param reader the user of the gateway, who gets access by its group; `null` where that is the user of the server
 * @param fence called right before something is started or ended; throws when another server does that by now
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
