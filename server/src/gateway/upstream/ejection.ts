import { connect } from 'node:net'
import type { AddressEndpoint } from '../control/protocol.ts'

/** Keeps requests from an instance that refuses connections. */
export interface Ejection {
  isActive(): boolean
  /** Ejects the instance until it takes a connection. */
  begin(): void
  /** Ends the ejection and its checks. */
  end(): void
}

/** The time between two attempts to connect to an ejected instance, and the longest that one may take. */
const checkMs = 250
const timeoutMs = 2_000

/** Asks by connections of its own, because a request that is sent to try an instance may be one that fails. */
export function createEjection({ host, port }: AddressEndpoint): Ejection {
  let timer: NodeJS.Timeout | null = null

  const check = (): void => {
    const asking = timer
    const socket = connect({ host, port, timeout: timeoutMs })
    const settle = (takes: boolean): void => {
      socket.destroy()
      if (timer !== asking) return
      timer = takes ? null : setTimeout(check, checkMs).unref()
    }
    socket.once('connect', () => settle(true))
    socket.once('timeout', () => settle(false))
    socket.on('error', () => settle(false))
  }

  return {
    isActive: () => timer !== null,
    begin() {
      timer ??= setTimeout(check, checkMs).unref()
    },
    end() {
      if (timer !== null) clearTimeout(timer)
      timer = null
    },
  }
}
