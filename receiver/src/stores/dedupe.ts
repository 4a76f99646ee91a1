import { ReceiverError } from '../errors.ts'

/**
 * Remembers handled webhooks, so that a repeated delivery is not handled again. A key is claimed before it is handled,
 * then committed on success or released on failure. The claim of a process that died expires with its lease.
 */
export interface DedupeStore {
  /**
   * Claims the key unless it is committed or held by a claim with an unexpired lease. Exactly one of several concurrent
   * claims succeeds, also across machines.
   * @param lease milliseconds
   */
  claim(key: string, lease: number): Promise<Claim>
}

export type Claim =
  | {
      readonly state: 'claimed'
      /** Marks the key as done for good. Does nothing when the lease has expired and another claim holds the key. */
      commit(): Promise<void>
      /** Frees the key after a failure. Does nothing when the lease has expired and another claim holds the key. */
      release(): Promise<void>
    }
  /** Another claim holds the key. */
  | { readonly state: 'busy' }
  /** The key is committed. */
  | { readonly state: 'done' }

/**
 * Runs `handle` unless the key is committed already, and commits the key on success.
 * @throws ReceiverError `in_progress`, `dedupe_failed` with the error of the store; also the errors of `handle`
 */
export async function onceOnly(
  store: DedupeStore,
  key: string,
  lease: number,
  handle: () => void | Promise<void>,
): Promise<'handled' | 'duplicate'> {
  const claim = await ofStore(() => store.claim(key, lease))
  if (claim.state === 'done') return 'duplicate'
  if (claim.state === 'busy') {
    throw new ReceiverError('in_progress', 'This webhook is being handled. Send it again in case the handler fails.')
  }
  try {
    await handle()
  } catch (error) {
    try {
      await claim.release()
    } catch {
      // Ignored: the lease expires anyway, and only the handler's error is reported.
    }
    throw error
  }
  await ofStore(() => claim.commit())
  return 'handled'
}

async function ofStore<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (cause) {
    throw new ReceiverError(
      'dedupe_failed',
      'The store of handled webhooks failed. The log of the receiver says why; send the webhook again.',
      { cause },
    )
  }
}
