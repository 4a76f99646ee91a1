import { ApiError } from '../../../contract/errors.ts'

/** Those who follow logs at once, by account, on this server: each holds a connection and reads files. */
export interface Followers {
  /** Counts one until its signal aborts. Throws `invalid_request` when the account has as many as it may. */
  admit(accountId: string, signal: AbortSignal): Promise<void>
}

export function createFollowers(given: { readonly mostFollowers: (accountId: string) => Promise<number> }): Followers {
  const counts = new Map<string, number>()
  const add = (accountId: string, by: number) => {
    const count = (counts.get(accountId) ?? 0) + by
    if (count > 0) counts.set(accountId, count)
    else counts.delete(accountId)
  }
  return {
    async admit(accountId, signal) {
      const most = await given.mostFollowers(accountId)
      if (signal.aborted) return
      if ((counts.get(accountId) ?? 0) >= most) {
        throw new ApiError(
          'invalid_request',
          `The account follows ${most} logs at once, as many as it may on this server. Close one of them first.`,
          { limit: 'log_followers', most },
        )
      }
      add(accountId, 1)
      signal.addEventListener('abort', () => add(accountId, -1), { once: true })
    },
  }
}
