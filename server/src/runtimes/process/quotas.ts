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
 * File system quotas for what a running app can write: its release, `HOME`, `TMPDIR` and the cache. Each release has a
 * quota group with the folders that it shares, so stopped releases do not count. An app made without quotas has plain
 * folders, and is only measured.
 */
export interface Quotas {
  /**
   * Makes the folders of a new app so that they can be limited. Does the same for a new release of an app with such
   * folders.
   */
  make(paths: ReleasePaths): Promise<void>
  /** Makes a removed cache of such an app again. */
  makeCache(release: LocalRelease): Promise<void>
  /** Sets the limit of an app from its release, which runs or is about to run. */
  hold(release: Pick<LocalRelease, 'paths' | 'limits'>): Promise<void>
  lift(paths: ReleasePaths): Promise<void>
  /** Removes the quota group of a release before the release itself is removed. */
  forget(paths: ReleasePaths): Promise<void>
}

/** @param mayLimit false where the server may set no quotas: nothing is limited */
export function createQuotas(mayLimit: boolean, logger: Pick<Logger, 'warn'>): Quotas {
  const attempt = async (paths: ReleasePaths, work: () => Promise<void>): Promise<void> => {
    if (!mayLimit) return
    // The server also measures sizes, so an app without a quota still has a limit.
    await work().catch((err: unknown) =>
      logger.warn(
        { err, folder: paths.directory },
        'the quota of an app could not be changed; its size is measured instead',
      ),
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
          // The folders belong to root until the app has a user.
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
