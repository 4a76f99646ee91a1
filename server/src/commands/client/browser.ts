import { once } from 'node:events'
import { startProcess } from '../../platform/processes/spawn.ts'

/** Starts the browser of the desktop, if there is one. */
export async function openBrowser(url: string): Promise<void> {
  const child = startProcess('xdg-open', [url], { stdio: 'ignore', detached: true })
  await Promise.race([once(child, 'spawn'), once(child, 'error')]).catch(() => undefined)
  child.unref()
}
