/** Every code of a `ReceiverError`, with the HTTP status that answers it. Codes are stable; messages may improve. */
const statuses = {
  // The request is invalid: sending it again unchanged would not help.
  body_too_large: 400,
  request_aborted: 400,
  missing_header: 400,
  duplicate_header: 400,
  bad_id: 400,
  bad_timestamp: 400,
  timestamp_too_old: 400,
  timestamp_too_new: 400,
  no_matching_signature: 400,
  invalid_utf8: 400,
  invalid_json: 400,
  invalid_payload: 400,
  method_not_allowed: 405,
  // The application failed: the sender retries.
  body_consumed: 500,
  not_raw_bytes: 500,
  handler_failed: 500,
  deadline_exceeded: 500,
  enqueue_failed: 500,
  // Another copy of the webhook is being handled: if that fails, a retry is needed.
  in_progress: 503,
  // The webhook and its handlers are correct.
  dedupe_failed: 503,
  internal_error: 500,
  // Thrown while the application creates its receiver.
  invalid_secret: 500,
  invalid_option: 500,
  unknown_event: 500,
  duplicate_handler: 500,
  late_registration: 500,
} as const

/** The cause of an error as a stable identifier to branch on. */
export type ReceiverErrorCode = keyof typeof statuses

/**
 * The only error that this package throws. `message` names the cause and the remedy and is safe to send to the client:
 * it contains no secret, no stack, and no data except the path of the invalid field. `cause` is for the application's
 * own log.
 */
export class ReceiverError extends Error {
  override readonly name = 'ReceiverError'
  readonly code: ReceiverErrorCode
  /** The HTTP status that the middleware answers with. */
  readonly status: 400 | 405 | 500 | 503

  constructor(code: ReceiverErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.status = statuses[code]
    // Koa's default error listener prints only the stack, so the stack includes the cause.
    if (this.cause instanceof Error) this.stack = `${this.stack}\ncaused by ${this.cause.stack}`
  }
}
