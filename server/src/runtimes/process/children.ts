import type { ProcessIdentity } from '../../platform/processes.ts'
import type { ExitStatus } from './launch/launch.ts'

/** An instance that this server process has started. */
export interface Child {
  readonly releaseId: string
  /** The name of the instance. */
  readonly unit: string
  readonly process: ProcessIdentity
  readonly exited: Promise<ExitStatus>
}

/** The instances that this server process has started. Only their exit status can be known. */
export interface Children {
  add(child: Child): void
  find(instance: Pick<Child, 'releaseId'> & ProcessIdentity): Child | undefined
  of(releaseId: string): Child[]
  /** Forgets those instances of the release, or of one name, that have ended: a crash loop must not fill the memory. */
  forgetEnded(releaseId: string, unit?: string): void
}

export function createChildren(): Children {
  const children = new Map<string, Child>()
  const ended = new Set<Child>()
  const of: Children['of'] = (id) => [...children.values()].filter((child) => child.releaseId === id)
  return {
    add(child) {
      children.set(keyOf(child.releaseId, child.process), child)
      void child.exited.then(() => ended.add(child))
    },
    find: ({ releaseId, ...process }) => children.get(keyOf(releaseId, process)),
    of,
    forgetEnded(releaseId, unit) {
      for (const child of of(releaseId)) {
        if (unit !== undefined && child.unit !== unit) continue
        if (ended.delete(child)) children.delete(keyOf(releaseId, child.process))
      }
    },
  }
}

const keyOf = (releaseId: string, { pid, startTime }: ProcessIdentity): string => `${releaseId}:${pid}:${startTime}`
