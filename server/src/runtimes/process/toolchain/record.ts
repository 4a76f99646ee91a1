import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import valid from 'semver/functions/valid.js'
import { exists, readOptional } from '../../../platform/files.ts'
import { unlessShort } from '../../../platform/processes.ts'
import type { ToolName } from '../../../platform/toolchain.ts'
import { listApps, pathsOf, type ReleasePaths } from '../release-folders.ts'
import { titles } from './packages.ts'

/** The versions of the tools of a release, except the versions from the server. */
export type Tools = Readonly<Partial<Record<ToolName, string>>>

const names = Object.keys(titles) as ToolName[]

export async function writeTools({ toolchain }: Pick<ReleasePaths, 'toolchain'>, tools: Tools): Promise<void> {
  await mkdir(dirname(toolchain), { recursive: true, mode: 0o700 })
  await writeFile(toolchain, JSON.stringify(tools), { mode: 0o600 })
}

/** Reads the tools of a release; empty without a record. */
export async function readTools({ toolchain }: Pick<ReleasePaths, 'toolchain'>): Promise<Tools> {
  const text = await readOptional(toolchain)
  if (text === undefined || text === '') return {}
  const stored = JSON.parse(text) as Record<string, unknown>
  return Object.fromEntries(
    names.flatMap((name) => {
      const version = stored[name]
      return typeof version === 'string' && valid(version) === version ? [[name, version]] : []
    }),
  )
}

export const folderName = (tool: ToolName, version: string): string => `${tool}-${version}`

/** Returns the folder names of all tools that releases use. */
export async function toolsOfReleases(apps: string): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  for (const { id: appId } of await listApps(apps)) {
    const folder = dirname(pathsOf(apps, { id: '', appId }).toolchain)
    for (const file of await readdir(folder).catch(unlessShort([]))) {
      const paths = pathsOf(apps, { id: file.replace(/\.json$/, ''), appId })
      if (!(await exists(paths.directory))) continue
      for (const [tool, version] of Object.entries(await readTools(paths))) {
        found.add(folderName(tool as ToolName, version))
      }
    }
  }
  return found
}

export async function toolFolders(directory: string): Promise<string[]> {
  const entries = await readdir(directory).catch(unlessShort([]))
  return entries.filter((name) => names.some((tool) => isOf(tool, name))).map((name) => join(directory, name))
}

export async function downloadedVersions(directory: string, tool: ToolName): Promise<string[]> {
  const entries = await readdir(directory).catch(unlessShort([]))
  return entries.filter((name) => isOf(tool, name)).map((name) => name.slice(tool.length + 1))
}

const isOf = (tool: ToolName, name: string): boolean =>
  name.startsWith(`${tool}-`) && valid(name.slice(tool.length + 1)) !== null
