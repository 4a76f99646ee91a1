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

/** Cuts `limit + 1` rows, newest first, to the page; the row too many tells that there is another one. */
export function cutPage<Row extends { readonly id: string }>(
  rows: readonly Row[],
  { limit }: PageRequest,
): { rows: readonly Row[]; next: string | null } {
  if (rows.length <= limit) return { rows, next: null }
  const page = rows.slice(0, limit)
  return { rows: page, next: page.at(-1)?.id ?? null }
}

/** The `Link` header's value (RFC 8288) for the page after `next`: the same request with another cursor. */
export function nextLink(path: string, query: Readonly<Record<string, unknown>>, next: string): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  const parameters = new URLSearchParams([...given.filter(([name]) => name !== 'cursor'), ['cursor', next]])
  return `<${path}?${parameters}>; rel="next"`
}
