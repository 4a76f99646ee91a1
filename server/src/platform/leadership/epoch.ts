import { readdirSync } from 'node:fs'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Thrown where a server that no longer leads tries to do what only the leader may do. It must not be retried. */
export class NotLeading extends Error {
  override readonly name = 'NotLeading'
  readonly code = 'not_leading'
  /** The epoch in which the server led. */
  readonly epoch: number

  constructor(epoch: number, reason: string) {
    super(`This server led in epoch ${epoch} and no longer leads: ${reason}.`)
    this.epoch = epoch
  }
}

/** Protects effects outside of the database from a leader that was stopped and continues after another took over. */
export interface EpochFence {
  /**
   * To be called right before each effect. Synchronous, so that nothing of this process comes in between; a process
   * that is stopped between the check and the effect is not found out.
   *
   * @throws NotLeading when a later epoch has begun
   */
  check(): void
}

/*
 * The epoch is the highest number among the names in a folder, each the name of an empty file. One file with the number in
 * it would not do: a leader that is stopped while it writes could replace the number of its successor by its own. Here
 * it adds a lower number, which changes nothing.
 */

/** @param options.directory the folder that `recordEpoch` writes to */
export function createEpochFence({ directory, epoch }: { directory: string; epoch: number }): EpochFence {
  return {
    check() {
      const newest = highest(readdirSync(directory))
      if (newest > epoch) throw new NotLeading(epoch, `epoch ${newest} has begun`)
    },
  }
}

/** Makes an epoch known to the fences of all processes that share the folder, which is created when it is missing. */
export async function recordEpoch(directory: string, epoch: number): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  await writeFile(join(directory, String(epoch)), '', { mode: 0o600 })
  const older = (await readdir(directory)).filter((name) => isEpoch(name) && Number(name) < epoch)
  await Promise.all(older.map((name) => rm(join(directory, name), { force: true })))
}

/** Returns the newest epoch in the folder, 0 when there is none. */
export async function recordedEpoch(directory: string): Promise<number> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  return highest(names)
}

const isEpoch = (name: string): boolean => /^[1-9]\d{0,14}$/.test(name)

const highest = (names: readonly string[]): number =>
  names.reduce((newest, name) => (isEpoch(name) ? Math.max(newest, Number(name)) : newest), 0)
