import { execFile } from 'node:child_process'
import { once } from 'node:events'
import type { ClientRequest } from 'node:http'
import { sleepUntilAborted } from '../abort.ts'
import type { Config } from '../config.ts'
import { request } from '../http.ts'
import type { Logger } from '../logger.ts'

/** Messages to the service manager that runs this server. Nothing is sent where there is none. */
export interface ServiceManager {
  readonly notifier: Notifier
  /** Reports that the server answers at this address, and keeps the watchdog quiet while it does. */
  ready(url: string): Promise<void>
  /** Shows in `systemctl status` why the start failed, and throws the error again. */
  failed(error: unknown): Promise<never>
  /**
   * Reports that the service stops, and extends the time for it again and again until the process ends: uploads may
   * take longer than the unit allows. A stop that hangs ends itself; when even that hangs, there is no extension. Does
   * nothing after `retire`, because the successor speaks for the service.
   */
  stopping(): Promise<void>
  /** Ends the signs of life silently, after another server has replaced this server. */
  retire(): void
}

/** A third of it must be shorter than the unit's TimeoutStopSec, so that each extension arrives in time. */
const extensionMs = 60_000

/** Connects to the service manager that the environment of this process names, if there is one. */
export function connectServiceManager(
  config: Pick<Config, 'serviceManager' | 'path'>,
  logger: Pick<Logger, 'warn' | 'error'>,
): ServiceManager {
  const { notifySocket, watchdogMs } = config.serviceManager
  const notifier = createNotifier({ socket: notifySocket, path: config.path, logger })
  const ended = new AbortController()
  return {
    notifier,
    async ready(url) {
      await notifier.ready(`Ready on ${url}`)
      if (notifySocket === undefined || watchdogMs === undefined) return
      const check = (signal: AbortSignal) => answers(url, signal)
      void feedWatchdog({ periodMs: watchdogMs, check, alive: notifier.alive, logger, signal: ended.signal })
    },
    async failed(error) {
      await notifier.status(`The start failed: ${error instanceof Error ? error.message : String(error)}`)
      throw error
    },
    async stopping() {
      if (ended.signal.aborted) return
      ended.abort()
      await notifier.stopping()
      setInterval(() => void notifier.extend(extensionMs), extensionMs / 3).unref()
    },
    retire: () => ended.abort(),
  }
}

/** Resolves when the server has answered whether it is ready, which includes a question to the database. */
async function answers(url: string, signal: AbortSignal): Promise<void> {
  // A new connection shows that the server also accepts connections.
  const asked: ClientRequest = request(`${url}/readyz`, { agent: false, signal })
  asked.end()
  const [answer] = (await once(asked, 'response', { signal })) as [NodeJS.ReadableStream]
  answer.resume()
}

/** Tells systemd the state of the service (sd_notify(3)). All functions do nothing where no service manager listens. */
interface Notifier {
  /** This process becomes the service's main process, in place of any other. */
  ready(status: string): Promise<void>
  status(text: string): Promise<void>
  /** A new configuration or version is being taken over; ends with `ready`. */
  reloading(): Promise<void>
  /** The whole service stops; never sent by a server that hands over. */
  stopping(): Promise<void>
  /** The stop may take this long from now on, even beyond the deadline of the unit. */
  extend(ms: number): Promise<void>
  alive(): Promise<void>
}

/** The notification is read within milliseconds; systemd itself may be busy for some seconds, as during a reboot. */
const timeoutMs = 10_000

/**
 * Creates a notifier over `systemd-notify`, because Node has no Unix datagram sockets. The program sends under the pid
 * of this process where it may, and waits until systemd has read the message, so that the message counts for this
 * service although its sender has ended by then. Messages are sent in order. A message that cannot be sent is logged
 * once.
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

/**
 * Sends signs of life, three in each period of the watchdog, as long as `check` settles in time. Its result does not
 * matter: the supervisor or the operator restores a lost database, not a restart of the server. A check that neither
 * succeeds nor fails means that the server hangs. Resolves when `signal` aborts.
 */
export async function feedWatchdog(options: {
  readonly periodMs: number
  readonly check: (signal: AbortSignal) => Promise<unknown>
  readonly alive: () => Promise<void>
  readonly logger: Pick<Logger, 'error'>
  readonly signal: AbortSignal
}): Promise<void> {
  const { periodMs, check, alive, logger, signal } = options
  const stepMs = Math.max(1, Math.floor(periodMs / 3))
  while (!signal.aborted) {
    const deadline = AbortSignal.timeout(stepMs)
    await check(deadline).catch(() => undefined)
    // The stop may have begun during the check. No sign of life may follow its message.
    if (signal.aborted) return
    // A check that the deadline has ended counts as a hang.
    if (!deadline.aborted) await alive()
    else
      logger.error(
        { deadline_ms: stepMs },
        'the server did not answer itself in time; systemd restarts it if that lasts',
      )
    await sleepUntilAborted(stepMs, signal)
  }
}
