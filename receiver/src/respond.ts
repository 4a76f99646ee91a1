import type { Authenticate, AuthenticWebhook } from './authenticate.ts'
import { Deadline } from './deadline.ts'
import { ReceiverError } from './errors.ts'
import { type Handlers, handlerFailed } from './handlers.ts'
import { type AnswerOutcome, errorAnswer, type Respond, successAnswer } from './http/exchange.ts'
import type { Enqueue, ReceiverOptions } from './options.ts'
import type { Webhook } from './payload.ts'
import { isThenable } from './thenable.ts'

export interface RespondOptions {
  readonly authenticate: Authenticate
  readonly handlers: Handlers
  readonly enqueue: Enqueue | undefined
  /** Seconds. */
  readonly deadline: number
  readonly onUnknown: ReceiverOptions['onUnknown']
  readonly onError: ReceiverOptions['onError']
}

/** Creates the function that verifies a webhook, handles or enqueues it, reports errors and returns the answer. */
export function createRespond(options: RespondOptions): Respond {
  const { authenticate, deadline } = options

  return async (headers, body, defaultReport) => {
    try {
      const checking = authenticate(headers, isThenable(body) ? await body : body)
      const authentic = isThenable(checking)
        ? await new Deadline(deadline, 'Checking the webhook').limit(checking)
        : checking
      const outcome = dispatch(options, authentic)
      return successAnswer(isThenable(outcome) ? await outcome : outcome)
    } catch (thrown) {
      const error = asReceiverError(thrown)
      await report(options, error, defaultReport)
      return errorAnswer(error)
    }
  }
}

/** Ignores, enqueues or handles the webhook. Returns a promise only for asynchronous handling. */
function dispatch(
  { handlers, enqueue, onUnknown, deadline }: RespondOptions,
  { webhook, known }: AuthenticWebhook,
): AnswerOutcome | Promise<AnswerOutcome> {
  if (!known) return ignoreUnknown(webhook, onUnknown, deadline)
  return enqueue ? enqueueWebhook(webhook, enqueue, deadline) : handlers.run(known)
}

async function ignoreUnknown(
  webhook: Webhook,
  onUnknown: ReceiverOptions['onUnknown'],
  deadline: number,
): Promise<'ignored'> {
  try {
    await new Deadline(deadline, '`onUnknown`').limit(Promise.resolve(onUnknown?.(webhook)))
  } catch (cause) {
    throw handlerFailed(webhook.event, cause)
  }
  return 'ignored'
}

async function enqueueWebhook(webhook: Webhook, enqueue: Enqueue, seconds: number): Promise<'enqueued'> {
  const deadline = new Deadline(seconds)
  try {
    await deadline.limit(Promise.resolve(enqueue(webhook, deadline)))
  } catch (cause) {
    throw new ReceiverError('enqueue_failed', 'The webhook could not be queued. Send it again.', { cause })
  }
  return 'enqueued'
}

/** Calls `onError`, or `defaultReport` without `onError` or when it fails. Never rejects. */
async function report(
  { onError, deadline }: Pick<RespondOptions, 'onError' | 'deadline'>,
  error: ReceiverError,
  defaultReport: (error: ReceiverError) => void,
): Promise<void> {
  if (!onError) {
    if (error.status >= 500 && error.code !== 'in_progress') defaultReport(error)
    return
  }
  try {
    // Limited, because the sender is still waiting for its answer.
    await new Deadline(deadline, '`onError`').limit(Promise.resolve(onError(error)))
  } catch (cause) {
    defaultReport(
      new ReceiverError('internal_error', `onError failed when it was called with ${error.code}.`, { cause }),
    )
  }
}

function asReceiverError(thrown: unknown): ReceiverError {
  if (thrown instanceof ReceiverError) return thrown
  return new ReceiverError('internal_error', 'The webhook receiver failed. Its log says why; send the webhook again.', {
    cause: thrown,
  })
}
