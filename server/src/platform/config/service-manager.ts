/** The variables that systemd sets for the processes of a service (sd_notify(3), sd_watchdog_enabled(3)). */
export interface ServiceManagerConfig {
  /** The socket that takes notifications; `undefined` when no service manager started this process. */
  readonly notifySocket: string | undefined
  /** A service that sends no sign of life for so long is killed; `undefined` for a service without a watchdog. */
  readonly watchdogMs: number | undefined
}

/**
 * Reads the variables of systemd. `WATCHDOG_PID` is not compared: it names the first process of the service, and a server
 * that took over from that process has another pid and the same duty.
 */
export function serviceManagerConfig(environment: Readonly<Record<string, string | undefined>>): ServiceManagerConfig {
  const socket = environment['NOTIFY_SOCKET'] ?? ''
  const microseconds = /^\d{1,15}$/.exec(environment['WATCHDOG_USEC'] ?? '')?.[0]
  const watchdogMs = Math.floor(Number(microseconds ?? 0) / 1000)
  return { notifySocket: socket === '' ? undefined : socket, watchdogMs: watchdogMs > 0 ? watchdogMs : undefined }
}
