import type { Cgroups } from '../../platform/cgroups.ts'
import type { Logger } from '../../platform/logger.ts'

/** A group that an earlier leader has left. */
export interface LeftGroup {
  readonly groups: Pick<Cgroups, 'remove'>
  readonly name: string
}

/**
 * Removes groups with their processes. Logs and returns the groups that cannot be removed, such as those with a process that the kernel
 * blocks, or that gets no core.
 *
 * @param fence called right before each removal; nothing is removed when it throws
 */
export async function removeLeftGroups(
  left: readonly LeftGroup[],
  fence: () => void,
  logger: Pick<Logger, 'warn'>,
): Promise<readonly LeftGroup[]> {
  const stayed = await Promise.all(
    left.map(async (each) => {
      fence()
      try {
        await each.groups.remove(each.name)
        return []
      } catch (error) {
        logger.warn({ err: error, group: each.name }, 'a group of an earlier leader cannot be removed yet')
        return [each]
      }
    }),
  )
  return stayed.flat()
}
