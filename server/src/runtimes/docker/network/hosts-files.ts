import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import { hostsLine, type NamedAddress } from '../../network/neighbours.ts'

/** Files with the names of the processes of each project, which its containers see as `/etc/hosts`. */
export interface HostsFiles {
  /** Makes the file of a project unless it is there. Resolves with its path. */
  make(projectId: string): Promise<string>
  /** Writes the names as they are now; does nothing without the file. */
  refresh(projectId: string): Promise<void>
  remove(projectId: string): Promise<void>
  /** The projects that have a file. */
  projects(): Promise<string[]>
}

/** A container has no IPv6, so `localhost` leads to IPv4 alone. */
const common = '127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback'

/**
 * @param folder an absolute path; made when it is needed
 * @param processesOf returns the processes of a project that have a name
 */
export function createHostsFiles(
  folder: string,
  processesOf: (projectId: string) => readonly NamedAddress[],
): HostsFiles {
  const lock = createKeyedLock()
  const pathOf = (projectId: string) => join(folder, projectId)
  const write = (projectId: string, flags: number): Promise<void> =>
    lock(projectId, async () => {
      await using file = await open(pathOf(projectId), flags)
      // Users of containers read it, whatever the server's files are by default.
      await file.chmod(0o644)
      await overwrite(file, [common, ...processesOf(projectId).map(hostsLine), ''].join('\n'))
    })

  return {
    async make(projectId) {
      await mkdir(folder, { recursive: true })
      await write(projectId, constants.O_RDWR | constants.O_CREAT)
      return pathOf(projectId)
    },
    refresh: (projectId) => write(projectId, constants.O_RDWR).catch(unlessNoFile),
    remove: (projectId) => lock(projectId, () => rm(pathOf(projectId), { force: true })),
    projects: () => readdir(folder).catch((error) => unlessNoFile(error) ?? []),
  }
}

/**
 * Replaces the text of a file in place, because containers that run see this file and not a later one of its name. Until the file
 * is cut, the rest of the former text is empty lines, so that no name of it is left.
 */
async function overwrite(file: FileHandle, text: string): Promise<void> {
  const { size } = await file.stat()
  const whole = Buffer.from(text.padEnd(size, '\n'))
  const { bytesWritten } = await file.write(whole, 0, whole.length, 0)
  if (bytesWritten < whole.length) throw new Error('the names of a project were not written whole')
  await file.truncate(text.length)
}

function unlessNoFile(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
}
