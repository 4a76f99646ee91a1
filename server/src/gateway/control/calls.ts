import type { CallError, CallName, InnerCalls, Settlement, ToEngine } from './protocol.ts'

/** Makes a call. When `signal` aborts, the call is canceled, and the reply follows. */
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
        pending.set(id, (settlement) => {
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
      const resolve = pending.get(message.id)
      pending.delete(message.id)
      resolve?.(message)
    },
    fail(error) {
      failed = error
      const waiting = [...pending.values()]
      pending.clear()
      for (const reject of waiting) reject(error)
    },
  }
}

function errorOf({ message, code }: CallError): Error {
  return code === null ? new Error(message) : Object.assign(new Error(message), { code })
}
