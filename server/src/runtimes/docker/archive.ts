import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import { SYSTEM_FOLDERS } from '../../platform/disk/folders.ts'
import { startProcess } from '../../platform/processes.ts'
import type { OsUser } from '../../platform/users.ts'

export interface ArchivePart {
  readonly folder: string
  readonly paths: readonly string[]
  /** True to include folders without their content. */
  readonly isShallow?: boolean
}

export interface ArchiveRequest {
  readonly parts: readonly ArchivePart[]
  /** The absolute paths that the archive leaves out. */
  readonly without?: readonly string[]
  /** The user that reads the files; null for the user of the server. */
  readonly reader: OsUser | null
  /** True to leave out files that the reader cannot read. */
  readonly isLenient?: boolean
  readonly mostBytes: number
}

export class ArchiveTooLarge extends Error {
  override readonly name = 'ArchiveTooLarge'
}

/**
 * Returns files of this machine as a tar archive with their owners and rights. Links stay links and are never followed.
 * The stream fails when a file is unreadable, and at the size limit: a sparse file takes more bytes in the archive than
 * on the disk.
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
  // An archive may fail before anybody reads it. The reader then finds the reason in `errored`.
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
  // Status 1: a file changed during the read.
  void once(tar, 'close').then(
    ([code]) => (code === 0 || code === 1 ? archive.end() : failed(new Error(`files cannot be read: ${said.trim()}`))),
    failed,
  )
  return archive
}

/** Prevents tar from reading a path as an option. */
const unoption = (path: string): string => (path.startsWith('-') ? `./${path}` : path)
