import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

/** The path of the installed Chromium; `undefined` when there is none. */
export const chromiumPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) =>
  existsSync(path),
)

/** Starts a headless Chromium, without its sandbox: that needs user namespaces, which containers often disallow. */
export function launchChromium(): Promise<Browser> {
  if (chromiumPath === undefined) throw new Error('no Chromium is installed: apt-get install chromium')
  return chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}

/** Reports which tests are skipped because there is no Chromium. */
export function noChromium(skipped: string): void {
  process.stderr.write(`SKIPPED, no Chromium is installed (apt-get install chromium): ${skipped}\n`)
}
