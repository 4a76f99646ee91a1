import { readFileSync } from 'node:fs'
import { ownRoot } from '../machine/own-files.ts'

export { ownRoot }

/** The version of this package. */
export const { version: ownVersion } = JSON.parse(readFileSync(`${ownRoot}/package.json`, 'utf8')) as {
  readonly version: string
}
