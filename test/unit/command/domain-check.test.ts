import { expect, it } from 'vitest'
import { type Domain, type DomainOfApp, untilServed } from '../../../server/src/commands/client/domains.ts'
import { ApiError } from '../../../server/src/contract/errors.ts'

/** Waits for a domain of a server that answers with `check`; resolves to undefined when it is not served in time. */
const waiting = (check: () => Promise<Domain>) =>
  untilServed(
    {
      connection: { client: { domains: { check, get: check } } },
      params: { project_id: 'proj_1', app_id: 'app_1' },
      domain: { id: 'dom_1' },
    } as unknown as DomainOfApp,
    50,
  )

it('waiting for a domain ends at once when it was removed', async () => {
  const gone = new ApiError('not_found', 'There is no such domain.')
  await expect(waiting(() => Promise.reject(gone))).rejects.toBe(gone)
})

it.each([
  ['is unavailable', new TypeError('fetch failed')],
  ['has an internal error', new ApiError('server_error', 'The server failed.')],
  ['says when to ask again', new ApiError('invalid_request', 'Too many checks.', { retry_after: 1 })],
])('waiting for a domain continues until its deadline while the server %s', async (_, error) => {
  expect(await waiting(() => Promise.reject(error))).toBeUndefined()
})

it('waiting for a domain ends with the domain when it is served', async () => {
  const served = { status: 'active', certificate: { status: 'active' }, problems: [] } as unknown as Domain
  expect(await waiting(async () => served)).toBe(served)
})
