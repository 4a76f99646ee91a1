import { randomUUID } from 'node:crypto'
import { link, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { readOptional } from '../files.ts'
import { inspectProcess } from '../processes.ts'

interface Owner {
  readonly pid: number
  readonly startedAt: string
  readonly token: string
}

/** Releases the lock. */
export type Release = () => Promise<void>

/**
 * Takes a lock on starting a program that outlives this process, until the program holds a lock or a socket of its own.
 * Returns null when another living process has it; the caller tries again later.
 *
 * A hard link makes the file appear together with its content, so it never lacks an owner. An owner is a pid and its start
 * time; a lock whose owner is gone is removed by renaming it, in which only one contender can succeed.
 */
export async function tryStartLock(path: string): Promise<Release | null> {
  const self = await inspectProcess(process.pid)
  if (self === null) throw new Error('This process cannot be inspected; is /proc mounted?')
  const owner: Owner = { pid: process.pid, startedAt: self.startedAt, token: randomUUID() }
  const content = JSON.stringify(owner)
  const own = `${path}.${owner.token}.new`
  await writeFile(own, content, { mode: 0o600, flag: 'wx' })
  try {
    await link(own, path)
    await removeUnusedFiles(path)
    return async () => {
      if ((await readOptional(path)) === content) await rm(path, { force: true })
    }
  } catch (error) {
    // ENOENT: the lock's new owner has just removed this file.
    if (!['EEXIST', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  } finally {
    await rm(own, { force: true })
  }
  const found = await readOptional(path)
  if (found !== undefined && !(await ownerLives(found))) await removeAbandoned(path, found)
  return null
}

/** Removes files of contenders that ended before they could link them. A living contender tries again. */
async function removeUnusedFiles(path: string): Promise<void> {
  const folder = dirname(path)
  for (const name of await readdir(folder)) {
    if (name.startsWith(`${basename(path)}.`) && name.endsWith('.new')) await rm(join(folder, name), { force: true })
  }
}

async function removeAbandoned(path: string, abandoned: string): Promise<void> {
  const aside = `${path}.${randomUUID()}`
  try {
    await rename(path, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  // A faster contender may have replaced the abandoned lock meanwhile: its lock is put back.
  if ((await readOptional(aside)) !== abandoned) await link(aside, path).catch(() => undefined)
  await rm(aside, { force: true })
}

async function ownerLives(content: string): Promise<boolean> {
  try {
    const owner: Owner = JSON.parse(content)
    const info = await inspectProcess(owner.pid)
    return info !== null && info.startedAt === owner.startedAt
  } catch (error) {
    // A power failure can leave the file without its content.
    if (error instanceof SyntaxError) return false
    throw error
  }
}
