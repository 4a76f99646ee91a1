import type { NoSchemas, Schemas } from './catalogue.ts'
import { ReceiverError } from './errors.ts'
import type { HandlerContext } from './handlers.ts'
import type { Webhook } from './payload.ts'
import type { Secrets } from './signature/keys.ts'
import { DEFAULT_TOLERANCE } from './signature/signature.ts'
import type { DedupeStore } from './stores/dedupe.ts'

interface CommonOptions<Own extends Schemas> {
  /**
   * The webhook's secrets (`whsec_…`); during a rotation, both the old and the new one. A function is called on every
   * request.
   */
  readonly secrets: Secrets
  /** Seconds that a timestamp may differ from the clock in either direction. Default: 300. */
  readonly tolerance?: number
  /** Returns the current time in Unix milliseconds. Default: `Date.now`. */
  readonly clock?: () => number
  /** Your own events beside Fairlead's: name → schema of `data`, from any library that implements Standard Schema. */
  readonly events?: Own
  /** Remembers handled webhooks. Without it, a repeated delivery is handled again. */
  readonly dedupe?: DedupeStore
  /**
   * Time limit in seconds for the handlers or `enqueue`, and, before them, for an asynchronous `secrets` function and
   * asynchronous schemas. Default: 10. Fairlead waits 15 s for an answer.
   */
  readonly deadline?: number
  /** Called with genuine but unknown events. If it fails, the webhook is sent again. */
  readonly onUnknown?: (event: Webhook) => void | Promise<void>
  /**
   * Called for every request that is answered with 400, 500 or 503. The error of a failed handler is the `cause`.
   * Without it, errors of status 500 and `dedupe_failed` go to the Koa app's `error` event, or else to `console.error`.
   */
  readonly onError?: (error: ReceiverError) => void | Promise<void>
}

/** Handlers run before the answer. */
interface AckAfter {
  readonly ack?: 'after'
  readonly enqueue?: never
}

/** The answer is sent when `enqueue` has stored the webhook. Handlers run when `receiver.run` is called. */
interface AckEnqueue {
  readonly ack: 'enqueue'
  readonly enqueue: Enqueue
}

/** Stores the webhook, which is plain JSON. If it throws, rejects or misses the deadline, the webhook is sent again. */
export type Enqueue = (webhook: Webhook, context: HandlerContext) => unknown

export type ReceiverOptions<Own extends Schemas = NoSchemas> = CommonOptions<Own> & (AckAfter | AckEnqueue)

/** The options that are checked here, with defaults filled in. */
export interface Settings {
  readonly tolerance: number
  readonly clock: () => number
  readonly deadline: number
  readonly enqueue: Enqueue | undefined
}

/** Throws without options: the types exclude this mistake, but plain JavaScript can make it. */
export function requireOptions(options: unknown): void {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return
  throw new ReceiverError(
    'invalid_option',
    "The receiver has no options. Pass at least the webhook's secret: createReceiver({ secrets: ['whsec_…'] }).",
  )
}

/** @throws ReceiverError `invalid_option` */
export function readSettings(options: ReceiverOptions<Schemas>): Settings {
  const { tolerance = DEFAULT_TOLERANCE, clock = Date.now, deadline = 10 } = options
  requireSeconds('tolerance', tolerance)
  requireSeconds('deadline', deadline, LONGEST_TIMER)
  return { tolerance, clock, deadline, enqueue: readEnqueue(options) }
}

function readEnqueue({ ack = 'after', enqueue }: AckAfter | AckEnqueue): Enqueue | undefined {
  if (ack === 'after' ? enqueue !== undefined : ack !== 'enqueue' || typeof enqueue !== 'function') {
    throw new ReceiverError(
      'invalid_option',
      "`ack` and `enqueue` do not fit. Pass `ack: 'enqueue'` with a function `enqueue`, or neither.",
    )
  }
  return enqueue
}

/** Seconds. Node's timers fire at once when they are set for a longer time. */
const LONGEST_TIMER = 2_147_483

function requireSeconds(name: string, value: number, maximum = Number.MAX_VALUE): void {
  if (!Number.isFinite(value) || value < 0) {
    throw new ReceiverError(
      'invalid_option',
      `\`${name}\` is not a number of seconds. Pass 0 or more, or leave it out.`,
    )
  }
  if (value > maximum) {
    throw new ReceiverError(
      'invalid_option',
      `\`${name}\` is more than ${maximum} seconds. Pass less, or leave it out.`,
    )
  }
}
