import { execFile } from 'node:child_process'
import type { Logger } from '../logger.ts'

/** Tells systemd the state of the service (sd_notify(3)). All functions do nothing where no service manager listens. */
export interface Notifier {
  /** The server answers. This process becomes the main process of the service, whichever process was it before. */
  ready(status: string): Promise<void>
  /** One line for `systemctl status`. */
  status(text: string): Promise<void>
  /** A new configuration or version is being taken over; ends with `ready`. */
  reloading(): Promise<void>
  /** The whole service stops; not to be sent by a server that hands over to another one. */
  stopping(): Promise<void>
  /** The stop may go on for this long from now on, also beyond the deadline of the unit. */
  extend(ms: number): Promise<void>
  /** A sign of life for the watchdog. */
  alive(): Promise<void>
}

/** The notification is read within milliseconds; systemd itself may be busy for some seconds, as during a reboot. */
const timeoutMs = 10_000

/**
 * Creates a notifier over `systemd-notify`, because Node has no datagram sockets of Unix. The program sends under the pid
 * of this process where it may, and waits until systemd has read the message, so that the message counts for this service
 * although its sender has ended by then. Messages are sent in order. A message that cannot be sent is logged once.
 *
 * @param options.socket the value of `NOTIFY_SOCKET`; `undefined` when no service manager listens
 * @param options.path the `PATH` on which `systemd-notify` is found
 */
export function createNotifier(options: {
  readonly socket: string | undefined
  readonly path: string
  readonly logger: Pick<Logger, 'warn'>
}): Notifier {
  const { socket, path, logger } = options
  let last = Promise.resolve()
  let warned = false

  const send = (...assignments: readonly string[]): Promise<void> => {
    if (socket === undefined) return Promise.resolve()
    last = last.then(async () => {
      const error = await notify(assignments, { PATH: path, NOTIFY_SOCKET: socket })
      if (error === null || warned) return
      warned = true
      logger.warn(
        { err: error },
        'systemd cannot be notified; the service counts as not ready. Is systemd-notify on PATH?',
      )
    })
    return last
  }

  return {
    ready: (status) => send('READY=1', `MAINPID=${process.pid}`, `STATUS=${oneLine(status)}`),
    status: (text) => send(`STATUS=${oneLine(text)}`),
    // The time tells systemd which of several requests to reload is answered.
    reloading: () => send('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`),
    stopping: () => send('STOPPING=1', 'STATUS=Stopping'),
    extend: (ms) => send(`EXTEND_TIMEOUT_USEC=${ms * 1000}`),
    alive: () => send('WATCHDOG=1'),
  }
}

function notify(assignments: readonly string[], env: Readonly<Record<string, string>>): Promise<Error | null> {
  return new Promise((done) => {
    execFile('systemd-notify', assignments, { env, timeout: timeoutMs }, (error) => done(error))
  })
}

/** A line break would begin another assignment. */
const oneLine = (text: string): string => text.replace(/\s+/g, ' ').trim()
