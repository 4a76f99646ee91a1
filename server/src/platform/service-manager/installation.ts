import { chmod, mkdir, realpath, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { readOptional } from '../files.ts'
import { makePassableDirectory } from '../machine/reach.ts'
import { currentLink } from '../versions/installed.ts'
import { differingLines } from './diff.ts'
import { settingsOf, type UnitSettings, unitFolder, unitsFor } from './units.ts'

/** Returns how each unit on this machine differs from what this version would write; units that do not differ are left out. */
export async function unitDrift(settings: UnitSettings): Promise<Readonly<Record<string, readonly string[]>>> {
  const drift: Record<string, readonly string[]> = {}
  for (const [name, text] of Object.entries(unitsFor(settings))) {
    const present = await readOptional(join(unitFolder, name))
    if (present !== undefined && present !== text) drift[name] = differingLines(present, text)
    else if (present === undefined) drift[name] = ['The unit is missing.']
  }
  return drift
}

/** Returns the settings of the installed unit; `undefined` when none is installed, `null` when it is not one of ours. */
export async function installedSettings(unit: string): Promise<UnitSettings | null | undefined> {
  const text = await readOptional(join(unitFolder, unit))
  return text === undefined ? undefined : settingsOf(text)
}

/** Writes the units, readable for everybody as units are. */
export async function writeUnits(settings: UnitSettings): Promise<void> {
  for (const [name, text] of Object.entries(unitsFor(settings))) {
    await writeFile(join(unitFolder, name), text)
    await chmod(join(unitFolder, name), 0o644)
  }
}

/** Creates a file that only root can read, because settings may be secrets. An existing file is kept. Returns whether it is new. */
export async function writeOnce(path: string, text: string): Promise<boolean> {
  await mkdir(dirname(path), { recursive: true, mode: 0o755 })
  try {
    await writeFile(path, text, { mode: 0o600, flag: 'wx' })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/**
 * Makes the link to the version that the service runs, unless there is one. An existing link is kept: an update points it at
 * the version that it installed. Returns the real path of the version.
 */
export async function linkCurrentVersion(dataDirectory: string, packageRoot: string): Promise<string> {
  const link = currentLink(dataDirectory)
  await makePassableDirectory(dirname(link))
  await symlink(packageRoot, link).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  return realpath(link)
}
