import { isClientError } from './client.ts'

/** Polling intervals: while a resource is changing, and otherwise. */
export const activePollMs = 2_000
export const idlePollMs = 10_000
const pageSize = 50

/** The query of the page after a cursor, or of the first page when the cursor is empty. */
export const pageAfter = (cursor: string) => ({ limit: pageSize, ...(cursor !== '' && { cursor }) })

/** The cursor of the next page is the last id of this one. A page that is not full is the last. */
export const cursorAfter = (rows: readonly { readonly id: string }[]) =>
  rows.length < pageSize ? undefined : rows.at(-1)?.id

/** Stops polling after a 4xx response without data, or the page would flicker between the error and loading. */
export const pollUnlessRejected = (state: { readonly data: unknown; readonly error: unknown }, everyMs: number) =>
  state.data === undefined && isClientError(state.error) ? false : everyMs
