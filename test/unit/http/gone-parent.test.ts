import { DatabaseError } from 'pg'
import { expect, it } from 'vitest'
import { isParentGone } from '../../../server/src/http/operations.ts'

const errorOf = (code: string, constraint?: string) =>
  Object.assign(new DatabaseError('violated', 1, 'error'), { code, constraint })

it.each([
  [errorOf('23503', 'runs_app_id_fkey'), true],
  [errorOf('23503', 'deliveries_webhook_id_fkey'), true],
  [errorOf('23503', 'deliveries_event_id_fkey'), false],
  [errorOf('23503'), false],
  [errorOf('23505', 'runs_app_id_fkey'), false],
  [new Error('23503 runs_app_id_fkey'), false],
])('a row with a missing parent differs from other errors: %o', (error, expected) => {
  expect(isParentGone(error)).toBe(expected)
})
