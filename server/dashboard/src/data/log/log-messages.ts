/*
 * The messages between the tabs and the worker that follows the logs of all of them.
 */

/** A message from a tab, which numbers the logs that it follows. */
export type ToWorker =
  | {
      readonly kind: 'follow'
      readonly number: number
      /** The project, and the deployment or the app: `proj_…/dep_…`. */
      readonly log: string
      /** The id of the tab's last event; empty for the log from its start. */
      readonly lastEventId: string
      /** The second secret of the session, which a worker cannot read itself. */
      readonly secret: string
    }
  | { readonly kind: 'leave'; readonly number: number }

/** A message to the tab: events of a log as text, the body of an error, or neither when the connection is lost. */
export interface FromWorker {
  readonly number: number
  readonly events?: string
  readonly error?: unknown
  readonly requestId?: string | undefined
}
