import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BuiltRelease } from '../../built-release.ts'
import { inspectImage } from '../calls/images.ts'
import { serverLabel } from '../names.ts'
import { archiveOf } from './archive.ts'
import { programsName } from './base-names.ts'
import { addLayer, type LayerParts } from './layer.ts'
import { contentsOf } from './state-of-files.ts'
import type { Progress } from './system.ts'

export interface ProgramsParts extends LayerParts {
  readonly server: string
}

/** The contents of folders of programs, as hashes by their paths. They stay the same while a server runs. */
export type KnownPrograms = Map<string, string>

/**
 * Returns the name of the image of a system with the programs that a release was built with, at the same paths. Releases that run with
 * the same ones share it.
 *
 * @param system the name of the image of the system
 * @returns with `isNew` when it was made now
 */
export async function programsImage(
  { server, ...parts }: ProgramsParts,
  known: KnownPrograms,
  system: string,
  { programs, place }: Pick<BuiltRelease, 'programs' | 'place'>,
  { signal }: Pick<Progress, 'signal'>,
): Promise<{ readonly name: string; readonly isNew: boolean }> {
  const base = await inspectImage(parts.engine, system)
  const key = JSON.stringify([programs, place.bin])
  const contents = known.get(key) ?? `${await contentsOf(programs)} ${await scriptsIn(place.bin)}`
  known.set(key, contents)
  const state = [base?.Id, key, contents]
  const hash = createHash('sha256').update(JSON.stringify(state))
  const name = programsName(server, hash.digest('hex').slice(0, 16))
  if ((await inspectImage(parts.engine, name)) !== null) return { name, isNew: false }
  const files = archiveOf({
    parts: [{ folder: '/', paths: programs.map((path) => path.slice(1)) }],
    reader: null,
    mostBytes: Number.POSITIVE_INFINITY,
  })
  await addLayer(parts, { from: system, name, files, settings: { Labels: { [serverLabel]: server } } }, signal)
  return { name, isNew: true }
}

/** Scripts of another server may have the same size, and name other paths. */
async function scriptsIn(bin: string): Promise<string> {
  const hash = createHash('sha256')
  const entries = await readdir(bin, { withFileTypes: true })
  const names = entries.filter((entry) => entry.isFile()).map(({ name }) => name)
  for (const name of names.sort()) hash.update(await readFile(join(bin, name)))
  return hash.digest('hex')
}
