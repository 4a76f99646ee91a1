import { mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isId } from '../../contract/ids.ts'
import { syncDirectory } from '../../platform/files.ts'
import { longestUploadMs } from './rows.ts'

/** The packs of uploaded sources in one folder. Which of them should exist is decided by the rows in `sources`. */
export interface SourceFiles {
  /** The path of a source's pack. */
  pathOf(id: string): string
  create(id: string): Promise<PackWriter>
  remove(id: string): Promise<void>
  /** Returns the ids of those that no upload writes any more. */
  settled(): Promise<string[]>
}

export interface PackWriter {
  write(bytes: Buffer): Promise<void>
  /** Resolves when the file would be there after a loss of power. */
  finish(): Promise<void>
  /** Closes the file; it is removed by `SourceFiles.remove`. */
  abort(): Promise<void>
}

const ending = '.pack'

export function createSourceFiles({ directory }: { readonly directory: string }): SourceFiles {
  const pathOf = (id: string) => join(directory, id + ending)
  return {
    pathOf,
    async create(id) {
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const file = await open(pathOf(id), 'wx', 0o600)
      return {
        write: (bytes) => file.writeFile(bytes),
        async finish() {
          await file.sync()
          await file.close()
          await syncDirectory(directory)
        },
        abort: () => file.close(),
      }
    },
    remove: (id) => rm(pathOf(id), { force: true }),
    async settled() {
      const names = (await readdir(directory).catch(() => [])).filter((name) => name.endsWith(ending))
      const ids = names.map((name) => name.slice(0, -ending.length)).filter((id) => isId('source', id))
      const isSettled = async (id: string) => {
        const written = await stat(pathOf(id)).catch(() => null)
        return written !== null && Date.now() - written.mtimeMs > longestUploadMs
      }
      const settled = await Promise.all(ids.map(isSettled))
      return ids.filter((_, at) => settled[at])
    },
  }
}
