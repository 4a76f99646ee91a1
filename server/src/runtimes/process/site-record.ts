import { lstat, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readOptional } from '../../platform/files.ts'
import { unlessShort } from '../../platform/processes.ts'
import type { LocalSite } from './handle.ts'
import type { ReleasePaths } from './release-folders.ts'

/*
 * A site has no process. A file in its release stands for the instance, and belongs to the server. The file contains
 * the id of the instance and outlives the server and a restart of the machine. Its removal ends the instance.
 */

const recordOf = ({ directory }: Pick<ReleasePaths, 'directory'>): string => join(directory, 'serving')

export async function writeRecord(paths: ReleasePaths, id: string): Promise<string> {
  const record = recordOf(paths)
  await writeFile(record, id, { mode: 0o600 })
  return record
}

/** True while the release serves this instance and the folder exists. */
export async function isServed({ id, record, folder }: LocalSite): Promise<boolean> {
  if ((await readOptional(record).catch(unlessShort(undefined))) !== id) return false
  return (await lstat(folder).catch(unlessShort(null)))?.isDirectory() === true
}

/** Ends an instance unless another instance has replaced it. */
export async function removeRecord({ id, record }: Pick<LocalSite, 'id' | 'record'>): Promise<void> {
  const found = await readFile(record, 'utf8').catch(unlessShort(undefined))
  if (found === id) await rm(record, { force: true })
}

/** Ends the current instance of a release, if any. */
export async function removeAnyRecord(paths: Pick<ReleasePaths, 'directory'>): Promise<void> {
  await rm(recordOf(paths), { force: true })
}

export async function hasRecord(paths: Pick<ReleasePaths, 'directory'>): Promise<boolean> {
  return (await lstat(recordOf(paths)).catch(unlessShort(null))) !== null
}
