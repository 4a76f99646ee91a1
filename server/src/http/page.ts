import { type ReferenceExpression, type SelectQueryBuilder, sql } from 'kysely'
import { z } from 'zod'

/** Which part of a list is asked for. Lists are newest first, and ids sort by time. */
export interface PageRequest {
  readonly limit: number
  /** The id that the page before ended with. */
  readonly after: string | undefined
}

/** One page, and the id that the next one starts after. */
export interface Page<Body> {
  readonly body: Body
  readonly next: string | null
}

const mostItems = 1000

const limit = z
  .string()
  .regex(/^\d{1,9}$/, 'must be a whole number')
  .transform(Number)
  .refine((value) => value >= 1 && value <= mostItems, `must be 1 to ${mostItems}`)

// Opaque to clients: only what a Link header has given is accepted.
const cursor = z.string().regex(/^[a-z]{1,10}_[0-7][0-9a-hjkmnp-tv-z]{25}$/, 'must come from a Link header')

/** The query parameters of every list. */
export const pageQuery = z.object({ limit: limit.optional(), cursor: cursor.optional() })

/** Reads them; without `limit` a page holds as much as any page may. */
export function pageRequest(query: z.output<typeof pageQuery>): PageRequest {
  return { limit: query.limit ?? mostItems, after: query.cursor }
}

/**
 * Reads one page of a list, newest first. It reads one row more than the page holds, which tells whether there is another.
 *
 * @param id the column to page by; `next` is the `id` of the page's last row
 */
export async function readPage<DB, TB extends keyof DB, Row extends { readonly id: string }>(
  query: SelectQueryBuilder<DB, TB, Row>,
  { limit, after }: PageRequest,
  id: ReferenceExpression<DB, TB> & string,
): Promise<{ rows: readonly Row[]; next: string | null }> {
  const rest = after === undefined ? query : query.where(sql.ref<string>(id), '<', after)
  const found = await rest
    .orderBy(sql.ref(id), 'desc')
    .limit(limit + 1)
    .execute()
  if (found.length <= limit) return { rows: found as Row[], next: null }
  const rows = found.slice(0, limit) as Row[]
  return { rows, next: rows.at(-1)?.id ?? null }
}

/** The `Link` header's value (RFC 8288) for the page after `next`: the same request with another cursor. */
export function nextLink(path: string, query: Readonly<Record<string, unknown>>, next: string): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  const parameters = new URLSearchParams([...given.filter(([name]) => name !== 'cursor'), ['cursor', next]])
  return `<${path}?${parameters}>; rel="next"`
}
