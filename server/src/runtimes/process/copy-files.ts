import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { pipeline } from 'node:stream/promises'
import { SYSTEM_FOLDERS } from '../../platform/disk/folders.ts'
import { startProcess } from '../../platform/processes.ts'
import type { OsUser } from '../../platform/users.ts'

/** A folder, and the user that it belongs to; null for that of the server. */
export interface OwnedFolder {
  readonly folder: string
  readonly user: OsUser | null
}

/**
 * Copies all that is in a folder into an empty one, with the holes of its files, so that a copy takes no more of the disk than the
 * original. No file is shared afterwards. The reader has the rights of the owner
 * alone, and `tar` follows no link: an app that exchanges a folder for a link meanwhile gains nothing by it.
 */
export async function copyFiles(from: OwnedFolder, to: OwnedFolder, signal: AbortSignal): Promise<void> {
  const reader = startTar(['--create', '--sparse', '--file=-', '.'], from, signal)
  const writer = startTar(['--extract', '--file=-', '--preserve-permissions'], to, signal)
  if (reader.stdout === null || writer.stdin === null) throw new Error('tar has no pipes')
  const [read, written] = [ended(reader), ended(writer)]
  // A writer that fails ends the reader, too; its status says why.
  await pipeline(reader.stdout, writer.stdin).catch(() => undefined)
  const statuses = await Promise.all([read, written])
  signal.throwIfAborted()
  // The app may write and remove files meanwhile, which tar says by the status 1.
  if (statuses[0] > 1 || statuses[1] !== 0) throw new Error(`tar ended with the codes ${statuses.join(' and ')}`)
}

function startTar(args: readonly string[], { folder, user }: OwnedFolder, signal: AbortSignal): ChildProcess {
  const stdio: ('pipe' | 'ignore')[] = args.includes('--create')
    ? ['ignore', 'pipe', 'ignore']
    : ['pipe', 'ignore', 'ignore']
  // Processes of the same user can read the environment, and the server's may hold passwords.
  const env = { PATH: SYSTEM_FOLDERS.join(':') }
  return startProcess('tar', args, { cwd: folder, env, stdio, signal, ...(user === null ? {} : user) })
}

async function ended(child: ChildProcess): Promise<number> {
  const [code] = await once(child, 'close').catch(() => [null])
  return typeof code === 'number' ? code : 2
}
