import { ReceiverError } from './errors.ts'

/**
 * Remembers what was handled, so that a webhook that comes again is not handled again. A key is claimed before its work
 * and then committed, or released to be claimed again. A claim whose process died ends with its lease.
 */
export interface DedupeStore {
  /**
   * Takes the key, if it is neither committed nor taken by a claim whose lease still runs. Of any number of claims at
   * once, on any number of machines, one gets it.
   * @param lease milliseconds
   */
  claim(key: string, lease: number): Promise<Claim>
}

export type Claim =
  | {
      readonly state: 'claimed'
      /** The work is done: the key is never given out again. Does nothing when the lease ran out and another took it. */
      commit(): Promise<void>
      /** The work failed: the key is free. Does nothing when the lease ran out and another took it. */
      release(): Promise<void>
    }
  /** Another claim's work goes on. */
  | { readonly state: 'busy' }
  /** The work was done before. */
  | { readonly state: 'done' }

/**
 * Does the work unless it was done before, and remembers that it is done.
 * @throws ReceiverError `in_progress`; whatever the work or the store throws
 */
export async function onceOnly(
  store: DedupeStore,
  key: string,
  lease: number,
  work: () => void | Promise<void>,
): Promise<'handled' | 'duplicate'> {
  const claim = await store.claim(key, lease)
  if (claim.state === 'done') return 'duplicate'
  if (claim.state === 'busy') {
    throw new ReceiverError('in_progress', 'This webhook is being handled. Send it again, in case that fails.')
  }
  try {
    await work()
  } catch (error) {
    try {
      await claim.release()
    } catch {
      // The lease ends by itself; why the work failed is what matters.
    }
    throw error
  }
  await claim.commit()
  return 'handled'
}
