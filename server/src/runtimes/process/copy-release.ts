import { chown } from 'node:fs/promises'
import { type Release, type ReleaseRef, RuntimeError } from '../runtime.ts'
import type { Confinement } from './confinement/confinement.ts'
import { copyFiles } from './copy-files.ts'
import { makeAppFolders, makeSourceFolder } from './release/folders.ts'
import { type LocalRelease, ownerOf, pathsOf } from './release/layout.ts'
import { originsOfCopy, readOrigins, writeOrigins } from './release/origins.ts'
import type { Quotas } from './release/quotas.ts'
import { readTools, writeTools } from './toolchain/record.ts'

interface CopyParts {
  /** The folder of all apps. */
  readonly apps: string
  readonly locate: (release: Release) => Promise<LocalRelease>
  readonly confinement: Pick<Confinement, 'showsFolders'>
  readonly quotas: Pick<Quotas, 'make'>
}

/** Makes a release of the files of another one, with the programs that it runs with. */
export async function copyRelease(
  { apps, locate, confinement, quotas }: CopyParts,
  from: ReleaseRef,
  release: Release,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted()
  if (!confinement.showsFolders) throw new RuntimeError('no_sandbox', noSandbox)
  const origin = pathsOf(apps, from)
  const uid = await ownerOf(origin)
  await quotas.make(pathsOf(apps, release))
  await makeSourceFolder(pathsOf(apps, release))
  const local = await locate(release)
  const { paths, user } = local
  await makeAppFolders(local)
  if (user !== null) await chown(paths.source, user.uid, user.gid)
  const reader = user === null || uid === undefined ? null : { uid, gid: uid }
  await copyFiles({ folder: origin.source, user: reader }, { folder: paths.source, user }, signal)
  await writeTools(paths, await readTools(origin))
  await writeOrigins(paths, originsOfCopy(await readOrigins(origin), origin.source))
}

const noSandbox =
  'A release is made of another one where the server has bubblewrap alone: what a build makes may name its folder. ' +
  "Ask the server's operator for it, or deploy the commit."
