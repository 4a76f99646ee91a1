import { type NameRefusal, refuse } from './refusal.ts'

/** The names that this server has itself. */
export interface OwnNames {
  /** The domain below which apps have their names; null when they have ports. */
  readonly domain: string | null
  /** The host of the dashboard and the API; null when it has no name. */
  readonly dashboardHost: string | null
}

/** Tells if a name is one of the server itself, or a wildcard that would cover one. */
export function ownNameRefusal(name: string, { domain, dashboardHost }: OwnNames): NameRefusal | undefined {
  const own = [domain, dashboardHost].flatMap((each) => (each === null ? [] : [each.toLowerCase()]))
  const isWildcard = name.startsWith('*.')
  const base = isWildcard ? name.slice(2) : name
  const around = own.find((each) => base === each || base.endsWith(`.${each}`))
  if (around !== undefined) {
    return refuse('own_name', `must be a domain of yours: ${around} and all names below it are those of this server`)
  }
  const covered = isWildcard ? own.find((each) => each.slice(each.indexOf('.') + 1) === base) : undefined
  if (covered === undefined) return undefined
  return refuse(
    'covers_own_name',
    `must not cover ${covered}, which is a name of this server: add the names that you need one by one`,
  )
}
