import type { AppsSet } from './apps.ts'
import type { DatabasesSet } from './databases.ts'
import type { DeploysSet } from './deploys.ts'
import type { EdgeSet } from './edge.ts'

type PortsSet = Pick<DeploysSet, 'FAIRLEAD_RELEASE_PORTS'> &
  Pick<AppsSet, 'FAIRLEAD_APP_PORTS' | 'FAIRLEAD_APPS_DOMAIN'> &
  Pick<EdgeSet, 'FAIRLEAD_DOMAIN'> &
  Pick<DatabasesSet, 'FAIRLEAD_DATABASE_PORTS' | 'FAIRLEAD_DATABASES_URL'>

/** A range of ports that overlaps another one. */
export interface PortOverlap {
  readonly variable: string
  readonly message: string
}

/** Finds the overlaps between the ranges of ports that this configuration uses. */
export function portOverlaps(set: PortsSet): PortOverlap[] {
  const used = (['FAIRLEAD_RELEASE_PORTS', 'FAIRLEAD_APP_PORTS', 'FAIRLEAD_DATABASE_PORTS'] as const).filter(
    (name) =>
      (name !== 'FAIRLEAD_APP_PORTS' || (set.FAIRLEAD_APPS_DOMAIN ?? set.FAIRLEAD_DOMAIN) === undefined) &&
      (name !== 'FAIRLEAD_DATABASE_PORTS' || set.FAIRLEAD_DATABASES_URL === undefined),
  )
  return used.flatMap((variable, index) =>
    used.slice(0, index).flatMap((other) => {
      const [one, two] = [set[variable], set[other]]
      if (one.to < two.from || one.from > two.to) return []
      return [{ variable, message: `(${one.from}-${one.to}) must not overlap ${other} (${two.from}-${two.to})` }]
    }),
  )
}
