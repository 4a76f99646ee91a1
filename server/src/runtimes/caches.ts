import { basename, dirname } from 'node:path'
import type { DataDirectory } from '../platform/data-directory.ts'
import { listHomes } from './docker/dockerfiles/daemon-record.ts'
import { appCacheFolders } from './process/release-folders.ts'
import { toolFolders, toolsOfReleases } from './process/toolchain/record.ts'

/** Lists the caches of the runtimes: packages of apps, image layers, and programs that apps request. */
export async function runtimeCacheFolders({
  apps,
  imageBuilds,
  tools,
}: Pick<DataDirectory, 'apps' | 'imageBuilds' | 'tools'>): Promise<string[]> {
  return [...(await appCacheFolders(apps)), ...(await listHomes(imageBuilds)), ...(await toolFolders(tools))]
}

/** True for a cache that must stay. Kept releases need their programs even when the registry is unreachable. */
export async function isKeptCache(
  { apps, tools }: Pick<DataDirectory, 'apps' | 'tools'>,
  path: string,
): Promise<boolean> {
  return dirname(path) === tools && (await toolsOfReleases(apps)).has(basename(path))
}
