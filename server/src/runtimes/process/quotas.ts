import { lchown, mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import {
  endLimit,
  hasQuotas,
  isSubvolume,
  limitTogether,
  makeSubvolume,
  removeGroup,
} from '../../platform/disk/btrfs.ts'
import { exists } from '../../platform/files.ts'
import type { Logger } from '../../platform/logger.ts'
import type { LocalRelease, ReleasePaths } from './release-folders.ts'

/**
 * Quotas of the file system for what a running app can write: its release, `HOME`, `TMPDIR` and the
 * cache. Each release has a group of its own with the folders that it shares, so that those at rest take nothing of what the
 * one that runs may have. An app
 * whose folders are plain, because it was made without quotas, is measured alone.
 */
export interface Quotas {
  /** Makes the folders of a new app, and of a new release of an app that has such folders, so that they can be limited. */
  make(paths: ReleasePaths): Promise<void>
  /** Makes the cache of such an app again when it was removed. */
  makeCache(release: LocalRelease): Promise<void>
  /** Limits an app whose release is about to run, or runs already, to what the release's limits say. */
  hold(release: Pick<LocalRelease, 'paths' | 'limits'>): Promise<void>
  /** Ends the limit of a release at rest. */
  lift(paths: ReleasePaths): Promise<void>
  /** Forgets a release that is about to be removed. */
  forget(paths: ReleasePaths): Promise<void>
}

/** @param mayLimit false where the server may set no quotas; then nothing is limited */
export function createQuotas(mayLimit: boolean, logger: Pick<Logger, 'warn'>): Quotas {
  const attempt = async (paths: ReleasePaths, work: () => Promise<void>): Promise<void> => {
    if (!mayLimit) return
    // Sizes are measured as well, so that an app without its quota is still limited.
    await work().catch((err: unknown) =>
      logger.warn({ err, folder: paths.directory }, 'the quota of an app could not be changed; its size is measured'),
    )
  }
  const ifLimited = (paths: ReleasePaths, work: () => Promise<void>) =>
    attempt(paths, async () => ((await isSubvolume(paths.directory)) ? work() : undefined))

  return {
    make: (paths) =>
      attempt(paths, async () => {
        const releases = dirname(paths.directory)
        const isNew = !(await exists(dirname(releases)))
        await mkdir(releases, { recursive: true, mode: 0o711 })
        if (isNew && (await hasQuotas(releases))) {
          // They belong to root until the app has a user.
          for (const folder of sharedOf(paths)) await makeSubvolume(folder, 0o700)
        }
        if (await isSubvolume(paths.home)) await makeSubvolume(paths.directory, 0o711)
      }),
    makeCache: ({ paths, user }) =>
      ifLimited(paths, async () => {
        if (await exists(paths.cache)) return
        await makeSubvolume(paths.cache, 0o700)
        if (user !== null) await lchown(paths.cache, user.uid, user.gid)
      }),
    hold: ({ paths, limits }) =>
      ifLimited(paths, () => limitTogether(paths.directory, sharedOf(paths), limits.diskBytes)),
    lift: (paths) => ifLimited(paths, () => endLimit(paths.directory)),
    forget: (paths) => ifLimited(paths, () => removeGroup(paths.directory, sharedOf(paths))),
  }
}

const sharedOf = ({ home, temporary, cache }: ReleasePaths): string[] => [home, temporary, cache]
