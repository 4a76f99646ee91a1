import { type ReferenceExpression, type SelectQueryBuilder, sql } from 'kysely'
import { z } from 'zod'

/** Lists are newest first; ids sort by time. */
export interface PageRequest {
  readonly limit: number
  readonly after: string | undefined
}

/** `next` is the last id of the page, or `null` on the last page. */
export interface Page<Body> {
  readonly body: Body
  readonly next: string | null
}

const maxItems = 1000

const limit = z
  .string()
  .regex(/^\d{1,9}$/, 'must be a whole number')
  .transform(Number)
  .refine((value) => value >= 1 && value <= maxItems, `must be 1 to ${maxItems}`)

const cursor = z.string().regex(/^[a-z]{1,10}_[0-7][0-9a-hjkmnp-tv-z]{25}$/, 'must come from a Link header')

export const pageQuery = z.object({ limit: limit.optional(), cursor: cursor.optional() })

/** Returns the page that parsed query parameters ask for. The default of `limit` is its maximum. */
export function pageRequest(query: z.output<typeof pageQuery>): PageRequest {
  return { limit: query.limit ?? maxItems, after: query.cursor }
}

/**
 * Reads one page of a list, newest first. One extra row is read to know whether another page follows.
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

/** Returns the `Link` header (RFC 8288): the same request with another cursor. */
export function nextLink(path: string, query: Readonly<Record<string, unknown>>, next: string): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  const parameters = new URLSearchParams([...given.filter(([name]) => name !== 'cursor'), ['cursor', next]])
  return `<${path}?${parameters}>; rel="next"`
}
