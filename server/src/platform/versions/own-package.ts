import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The folder of this package. */
export const ownRoot = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '')

/** The version of this package. */
export const { version: ownVersion } = JSON.parse(readFileSync(`${ownRoot}/package.json`, 'utf8')) as {
  readonly version: string
}
