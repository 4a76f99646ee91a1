import { startDeadline } from './deadline.ts'
import type { CallError, CallName, InnerCalls, Settlement, ToEngine } from './protocol.ts'

/**
 * A call that is not answered after this time fails, beyond the time that its parameters allow. Longer than it takes until a
 * process that has stopped answering is replaced (`watch.ts`), so that it is one that was forgotten, or waits for a disk.
 */
const answerMs = 30_000

/** The code of the error for calls that were not answered in time. */
export const callOverdue = 'GATEWAY_CALL_OVERDUE'
/** The code of the error for calls that no gateway could be reached for. */
export const gatewayUnreachable = 'GATEWAY_UNREACHABLE'

/**
 * Makes a call. When `signal` aborts, the call is canceled, and the reply follows. Rejects with code `GATEWAY_CALL_OVERDUE` when
 * there is no reply for long.
 */
export type Call = <Name extends CallName>(
  name: Name,
  parameters: InnerCalls[Name]['parameters'],
  signal?: AbortSignal,
) => Promise<InnerCalls[Name]['result']>

/** The calls of one connection that wait for their replies. */
export interface PendingCalls<Handle> {
  /** Like `Call`; `handle` travels with the message. */
  call<Name extends CallName>(
    name: Name,
    parameters: InnerCalls[Name]['parameters'],
    signal?: AbortSignal,
    handle?: Handle,
  ): Promise<InnerCalls[Name]['result']>
  settle(message: Settlement): void
  /** Rejects all that wait, and every later call. */
  fail(error: Error): void
}

/** Gives each call an id by which its reply is found. */
export function createCalls<Handle = never>(post: (message: ToEngine, handle?: Handle) => void): PendingCalls<Handle> {
  const pending = new Map<number, (settlement: Settlement | Error) => void>()
  let lastId = 0
  let failed: Error | null = null

  const settle = (id: number, settlement: Settlement | Error): void => {
    const resolve = pending.get(id)
    pending.delete(id)
    resolve?.(settlement)
  }

  return {
    call(name, parameters, signal, handle) {
      lastId += 1
      const id = lastId
      const cancel = () => post({ type: 'cancel', id })
      return new Promise((resolve, reject) => {
        if (failed !== null) {
          reject(failed)
          return
        }
        const stopWaiting = startDeadline(answerMs + allowedMs(parameters), () => {
          cancel()
          settle(id, overdue(name))
        })
        pending.set(id, (settlement) => {
          stopWaiting()
          signal?.removeEventListener('abort', cancel)
          if (settlement instanceof Error) reject(settlement)
          else if (settlement.type === 'failure') reject(errorOf(settlement.error))
          else resolve(settlement.result as InnerCalls[typeof name]['result'])
        })
        post({ type: 'request', id, name, parameters } as ToEngine, handle)
        if (signal?.aborted) cancel()
        else signal?.addEventListener('abort', cancel, { once: true })
      })
    },
    settle(message) {
      settle(message.id, message)
    },
    fail(error) {
      failed = error
      for (const id of [...pending.keys()]) settle(id, error)
    },
  }
}

/** Returns the time that a call may take by its parameters, such as for requests to finish. */
function allowedMs(parameters: InnerCalls[CallName]['parameters']): number {
  return parameters !== null && 'timeoutMs' in parameters ? parameters.timeoutMs : 0
}

function overdue(name: CallName): Error {
  return Object.assign(new Error(`the gateway has not answered the call ${name}`), { code: callOverdue })
}

function errorOf({ message, code }: CallError): Error {
  return code === null ? new Error(message) : Object.assign(new Error(message), { code })
}
