import type { LinkRequests } from '../../deployments/links.ts'
import type { HandlersOf } from '../../http/call.ts'

/** The link operation that the databases feature needs. */
export type DatabaseLinks = Pick<LinkRequests, 'create'>

/** Extends the creation of databases, so that it can also link an app. */
export function withLinks(
  handlers: HandlersOf<'databases'>,
  links: DatabaseLinks,
): Pick<HandlersOf<'databases'>, 'databases.create'> {
  return {
    'databases.create': async (call) => {
      const created = await handlers['databases.create'](call)
      const { link } = call.body
      if (link !== undefined) await links.create(call.transaction, call, { ...link, database: created.id })
      return created
    },
  }
}
