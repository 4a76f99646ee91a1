import { lstatSync } from 'node:fs'

/** Returns what tells a file, such as a Unix socket, apart from another one at the same path; null when there is none. */
export function fileIdentity(path: string): string | null {
  const info = lstatSync(path, { throwIfNoEntry: false })
  return info === undefined ? null : `${info.dev} ${info.ino}`
}
