import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

/** The system's own Chromium; `undefined` where there is none. */
export const chromiumPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) =>
  existsSync(path),
)

/** A headless Chromium. It gets no sandbox of its own: that needs user namespaces, which containers often withhold. */
export function launchChromium(): Promise<Browser> {
  if (chromiumPath === undefined) throw new Error('no Chromium is installed: apt-get install chromium')
  return chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}

/** Says plainly what is not tested where there is no Chromium. */
export function noChromium(what: string): void {
  process.stderr.write(`SKIPPED, no Chromium is installed (apt-get install chromium): ${what}\n`)
}
