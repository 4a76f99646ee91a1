import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import { SYSTEM_FOLDERS } from '../../platform/disk/folders.ts'
import { startProcess } from '../../platform/processes.ts'
import type { OsUser } from '../../platform/users.ts'

/** A folder, and what is taken of it by relative paths, which the archive has as well. */
export interface ArchivePart {
  readonly folder: string
  readonly paths: readonly string[]
  /** True for folders without what they hold. */
  readonly isShallow?: boolean
}

/** Files of this machine as an archive has them. */
export interface ArchiveRequest {
  readonly parts: readonly ArchivePart[]
  /** Absolute paths that are left out. */
  readonly without?: readonly string[]
  /** The user that reads them; null for that of the server. */
  readonly reader: OsUser | null
  /** True where files that the reader may not read are left out. */
  readonly isLenient?: boolean
  /** The most bytes of the archive. */
  readonly mostBytes: number
}

/** An archive that has more bytes than it may. */
export class ArchiveTooLarge extends Error {
  override readonly name = 'ArchiveTooLarge'
}

/**
 * Returns files of this machine as a tar archive with their owners and rights. Links are archived as links and never followed. The
 * stream fails when a file cannot be read, and beyond the most bytes: a file with holes has more of them than the disk has.
 */
export function archiveOf({ parts, reader, isLenient = false, mostBytes, ...more }: ArchiveRequest): Readable {
  const args = [
    ...['--create', '--file=-', '--format=gnu', '--numeric-owner', '--anchored', '--no-wildcards'],
    ...(more.without ?? []).map((path) => `--exclude=${path.slice(1)}`),
    ...(isLenient ? ['--ignore-failed-read'] : []),
    ...parts.flatMap(({ folder, paths, isShallow = false }) => [
      ...[isShallow ? '--no-recursion' : '--recursion', `--directory=${folder}`],
      ...paths.map(unoption),
    ]),
  ]
  const env = { PATH: SYSTEM_FOLDERS.join(':') }
  const tar = startProcess('tar', args, { cwd: '/', env, stdio: ['ignore', 'pipe', 'pipe'], ...reader })
  const archive = new PassThrough()
  const failed = (error: Error) => void archive.destroy(error)
  archive.once('close', () => void tar.kill('SIGKILL'))
  // An archive may fail before anybody reads it, who finds the reason in `errored` then.
  archive.on('error', () => undefined)
  tar.on('error', failed)
  if (tar.stdout === null) return archive
  let said = ''
  tar.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-1_000)
  })
  let bytes = 0
  tar.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > mostBytes) failed(new ArchiveTooLarge(`more than ${mostBytes} bytes`))
  })
  tar.stdout.pipe(archive, { end: false })
  // The status 1 says that a file was changed meanwhile.
  void once(tar, 'close').then(
    ([code]) => (code === 0 || code === 1 ? archive.end() : failed(new Error(`files cannot be read: ${said.trim()}`))),
    failed,
  )
  return archive
}

/** No path is taken for an option. */
const unoption = (path: string): string => (path.startsWith('-') ? `./${path}` : path)
