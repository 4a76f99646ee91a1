import { lstatSync } from 'node:fs'

/** Returns an id that differs between successive files, such as Unix sockets, at one path; null without a file. */
export function fileIdentity(path: string): string | null {
  const info = lstatSync(path, { throwIfNoEntry: false })
  return info === undefined ? null : `${info.dev} ${info.ino}`
}
