import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Engine } from '../engine/engine.ts'
import { forgetImage } from './name-image.ts'

/**
 * The names that images have while they are pulled, each in a file: an image has the name of its registry until it has that of its
 * release, and keeps it when the server is killed in between.
 */
export interface UnfinishedPulls {
  /** Runs a pull, after which the engine has no image of the name, unless `wasThere` says that it had one before. */
  during<T>(name: string, wasThere: () => Promise<boolean>, pull: () => Promise<T>): Promise<T>
  /** Takes their names from the images of pulls that nobody works on any more. */
  clean(): Promise<void>
}

/** @param directory a folder of its own, which is made when it is missing */
export function createUnfinishedPulls(engine: Engine, directory: string, fence: () => void): UnfinishedPulls {
  const underWay = new Set<string>()
  const fileOf = (name: string) => join(directory, createHash('sha256').update(name).digest('hex'))
  const forget = async (name: string): Promise<void> => {
    fence()
    await forgetImage(engine, name)
    await rm(fileOf(name), { force: true })
  }
  return {
    async during(name, wasThere, pull) {
      underWay.add(name)
      try {
        const isLeft = (await readName(fileOf(name))) !== null
        if (!isLeft && (await wasThere())) return await pull()
        await mkdir(directory, { recursive: true, mode: 0o700 })
        await writeFile(fileOf(name), name, { mode: 0o600 })
        try {
          return await pull()
        } finally {
          // Its own name takes the place of this one.
          await forget(name)
        }
      } finally {
        underWay.delete(name)
      }
    },

    async clean() {
      for (const file of await readdir(directory).catch(() => [])) {
        const name = await readName(join(directory, file))
        if (name !== null && !underWay.has(name)) await forget(name)
      }
    },
  }
}

/** Null when there is no such file, or when it was being written as the server ended: then nothing was pulled. */
async function readName(file: string): Promise<string | null> {
  const name = await readFile(file, 'utf8').catch(() => '')
  return name.includes('@sha256:') ? name : null
}
