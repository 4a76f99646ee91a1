import { randomUUID } from 'node:crypto'
import { link, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { readOptional } from './files.ts'
import { inspectProcess } from './processes.ts'

interface Owner {
  readonly pid: number
  readonly startedAt: string
  readonly token: string
}

export type Release = () => Promise<void>

/**
 * Takes a lock on starting a program that outlives this process, until the program itself holds a lock or a socket.
 * Returns null when another live process has the lock; the caller tries again later.
 *
 * Each owner has a file: `path` and a number that is one more than the number of the previous owner. The file with the
 * highest number names the owner of the lock, until the file is empty or its owner (a pid and its start time) is gone.
 * This file is never removed or renamed, so a contender that read an earlier file, however long ago, takes nothing from
 * a later owner. A hard link makes a file appear together with its content, and for only one contender.
 */
export async function tryStartLock(path: string): Promise<Release | null> {
  const self = await inspectProcess(process.pid)
  if (self === null) throw new Error('This process cannot be inspected; is /proc mounted?')
  const last = await lastNumber(path)
  if (last !== null && (await ownerLives((await readOptional(fileOf(path, last))) ?? ''))) return null
  const owner: Owner = { pid: process.pid, startedAt: self.startedAt, token: randomUUID() }
  const number = (last ?? 0) + 1
  const own = fileOf(path, number)
  if (!(await linkNew(path, own, owner))) return null
  // Owners remove earlier files. A contender that has seen an earlier file makes a file that does not count.
  if ((await lastNumber(path)) !== number) {
    await rm(own, { force: true })
    return null
  }
  await removeEarlier(path, number)
  return async () => {
    await truncate(own).catch(unlessMissing)
  }
}

const fileOf = (path: string, number: number): string => `${path}.${number}`

function numberOf(path: string, name: string): number | null {
  const digits = name.startsWith(`${basename(path)}.`) ? name.slice(basename(path).length + 1) : ''
  return /^[1-9]\d*$/.test(digits) ? Number(digits) : null
}

/** Returns the highest number that any owner's file has; null without a file. */
async function lastNumber(path: string): Promise<number | null> {
  const numbers = (await readdir(dirname(path))).flatMap((name) => numberOf(path, name) ?? [])
  return numbers.length === 0 ? null : Math.max(...numbers)
}

/** Makes the file of an owner. Returns false when another contender was faster. */
async function linkNew(path: string, own: string, owner: Owner): Promise<boolean> {
  const made = `${path}.${owner.token}.new`
  await writeFile(made, JSON.stringify(owner), { mode: 0o600, flag: 'wx' })
  try {
    await link(made, own)
    return true
  } catch (error) {
    // ENOENT: the lock's new owner has just removed this file.
    if (!['EEXIST', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    return false
  } finally {
    await rm(made, { force: true })
  }
}

/** Removes the files of earlier owners, and the `.new` files of dead contenders. A live contender tries again. */
async function removeEarlier(path: string, number: number): Promise<void> {
  const folder = dirname(path)
  for (const name of await readdir(folder)) {
    const isUnused = name.startsWith(`${basename(path)}.`) && name.endsWith('.new')
    if (isUnused || (numberOf(path, name) ?? number) < number) await rm(join(folder, name), { force: true })
  }
}

function unlessMissing(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
}

async function ownerLives(content: string): Promise<boolean> {
  try {
    const owner: Owner = JSON.parse(content)
    const info = await inspectProcess(owner.pid)
    return info !== null && info.startedAt === owner.startedAt
  } catch (error) {
    // The lock was released, or a power failure has emptied the file.
    if (error instanceof SyntaxError) return false
    throw error
  }
}
