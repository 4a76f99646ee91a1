import { join } from 'node:path'
import { foldersIn } from '../disk/folders.ts'
import { readOptional } from '../files.ts'
import { findPostmaster, type PostmasterLock } from './postmaster.ts'

export interface FoundCluster {
  readonly purpose: 'state' | 'users'
  readonly directory: string
  readonly version: string
  readonly postmaster: PostmasterLock | null
}

/** Finds the clusters in the data directory. The cluster of the state comes first. */
export async function findClusters({
  cluster,
  databases,
}: {
  readonly cluster: string
  readonly databases: string
}): Promise<readonly FoundCluster[]> {
  const users = (await foldersIn(databases)).map((version) => join(databases, version, 'data'))
  const found = await Promise.all([find('state', cluster), ...users.map((directory) => find('users', directory))])
  return found.filter((each) => each !== null)
}

async function find(purpose: FoundCluster['purpose'], directory: string): Promise<FoundCluster | null> {
  const [postmaster, version] = await Promise.all([findPostmaster(directory), majorVersion(directory)])
  return version === undefined && postmaster === null
    ? null
    : { purpose, directory, version: version ?? 'unknown', postmaster }
}

/** Returns `undefined` for a folder without a cluster. Only the user of a cluster and root can read its folder. */
async function majorVersion(directory: string): Promise<string | undefined> {
  return (await readOptional(join(directory, 'PG_VERSION')))?.trim()
}
