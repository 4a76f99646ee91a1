import { type FSWatcher, watch } from 'node:fs'
import { dirname } from 'node:path'
import type { LocalSite } from '../release/local-instance.ts'
import { isServed } from './record.ts'

/**
 * Calls `onEnd` once, soon after a site has ended or its folder is gone. Returns a function that ends the watch. Where the
 * system has no watches left, the gateway still tells of a folder that it cannot read, and the next comparison finds the rest.
 */
export function watchSite(site: LocalSite, onEnd: () => void): () => void {
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
      // It may have ended already: the look below tells.
    }
  }
  // In a later turn, when the caller has the function that ends the watch.
  setImmediate(() => void look())
  return end
}
