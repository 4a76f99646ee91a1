import type { Catalogue, EventOf, NoSchemas, PatternOf, Schemas } from './catalogue.ts'
import { Deadline } from './deadline.ts'
import { ReceiverError } from './errors.ts'
import { matches } from './patterns.ts'
import { type DedupeStore, onceOnly } from './stores/dedupe.ts'
import { isThenable } from './thenable.ts'

/** The second argument of a handler. */
export interface HandlerContext {
  /** Aborts at the deadline: from then on the sender counts the webhook as failed and sends it again. */
  readonly signal: AbortSignal
}

/** Handles an event. If it throws, rejects or misses its deadline, the webhook is sent again. */
export type Handler<P extends PatternOf<Own>, Own extends Schemas = NoSchemas> = (
  event: EventOf<P, Own>,
  context: HandlerContext,
) => void | Promise<void>

/** An event with validated data. The type of `Handler` determines the event. */
export interface AnyEvent {
  readonly id: string
  readonly event: string
  readonly timestamp: string
  readonly data: unknown
}

export type AnyHandler = (event: AnyEvent, context: HandlerContext) => void | Promise<void>

export type Outcome = 'handled' | 'ignored' | 'duplicate'

export interface Handlers {
  /** @throws ReceiverError `unknown_event`, `duplicate_handler`, `invalid_option` */
  add(patterns: readonly string[], handler: AnyHandler): void
  /**
   * Runs all handlers of the event concurrently. With a dedupe store, handlers that have succeeded before are skipped.
   * @throws ReceiverError `handler_failed`, `deadline_exceeded`, `in_progress`, `dedupe_failed`
   */
  run(event: AnyEvent): Outcome | Promise<Outcome>
}

interface Registered {
  /** Its pattern. Part of the dedupe key, so that each handler of an event is deduplicated separately. */
  readonly pattern: string
  readonly handler: AnyHandler
}

export interface HandlersOptions {
  readonly catalogue: Catalogue
  /** Seconds. */
  readonly deadline: number
  readonly dedupe: DedupeStore | undefined
}

/** Creates the registry of handlers, which also runs them. */
export function createHandlers({ catalogue, deadline: seconds, dedupe }: HandlersOptions): Handlers {
  const routes = new Map<string, readonly Registered[]>()
  // Longer than the deadline, so that a handler that obeys its signal ends before its lease expires.
  const lease = 2 * seconds * 1000

  // Stays synchronous with a synchronous handler: a promise tick costs as much as verifying a small event.
  const attempt = (event: AnyEvent, { pattern, handler }: Registered): Outcome | Promise<Outcome> => {
    const deadline = new Deadline(seconds)
    const fail = (cause: unknown): never => {
      throw isOwnError(cause) ? cause : handlerFailed(event.event, cause)
    }
    try {
      if (dedupe) {
        const once = onceOnly(dedupe, `${event.id} ${pattern}`, lease, () => handler(event, deadline))
        return deadline.limit(once).catch(fail)
      }
      const running = handler(event, deadline)
      return isThenable(running) ? deadline.limit(running).then(() => 'handled', fail) : 'handled'
    } catch (cause) {
      return fail(cause)
    }
  }

  const attemptAll = async (event: AnyEvent, route: readonly Registered[]): Promise<Outcome> => {
    const results = await Promise.allSettled(route.map(async (registered) => attempt(event, registered)))
    const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
    const [first] = failures
    const isOfStore = (error: unknown) => error instanceof ReceiverError && error.code === 'dedupe_failed'
    if (failures.length === 1 || (failures.length > 1 && failures.every(isOfStore))) throw first
    if (failures.length > 1) throw handlerFailed(event.event, new AggregateError(failures, 'Several handlers failed.'))
    const ran = results.some((result) => result.status === 'fulfilled' && result.value === 'handled')
    return ran ? 'handled' : 'duplicate'
  }

  return {
    add(patterns, handler) {
      requireHandler(handler, patterns)
      const added = new Map<string, Registered>()
      for (const pattern of patterns) {
        const names = [...catalogue.keys()].filter((name) => matches(pattern, name))
        if (names.length === 0) throw unknownEvent(pattern, catalogue)
        for (const name of names) {
          if (routes.get(name)?.some((registered) => registered.pattern === pattern)) throw duplicate(pattern)
          if (!added.has(name)) added.set(name, { pattern, handler })
        }
      }
      for (const [name, registered] of added) routes.set(name, [...(routes.get(name) ?? []), registered])
    },

    run(event) {
      const route = routes.get(event.event)
      if (!route) return 'ignored'
      const [only] = route
      return only && route.length === 1 ? attempt(event, only) : attemptAll(event, route)
    },
  }
}

/** True when the error comes from this package and needs no wrapping. */
const isOwnError = (cause: unknown): boolean => cause instanceof ReceiverError && ownCodes.has(cause.code)

const ownCodes: ReadonlySet<string> = new Set(['in_progress', 'deadline_exceeded', 'dedupe_failed'])

/** @param cause the handler's own error */
export const handlerFailed = (name: string, cause: unknown): ReceiverError =>
  new ReceiverError(
    'handler_failed',
    `The receiver's handler of ${name} failed. Its log says why; send the webhook again.`,
    { cause },
  )

// The types exclude this mistake, but plain JavaScript can make it.
function requireHandler(handler: unknown, patterns: readonly string[]): void {
  if (typeof handler !== 'function') {
    throw new ReceiverError('invalid_option', `The handler of ${patterns} is not a function. Pass a function.`)
  }
}

const unknownEvent = (pattern: string, catalogue: Catalogue) =>
  new ReceiverError(
    'unknown_event',
    `"${pattern}" is not an event that this receiver knows. Register one of: ${[...catalogue.keys()].join(', ')}; ` +
      'declare your own with `events`.',
  )

const duplicate = (pattern: string) =>
  new ReceiverError(
    'duplicate_handler',
    `${pattern} has a handler already. Register one handler for it and call the others from it.`,
  )
