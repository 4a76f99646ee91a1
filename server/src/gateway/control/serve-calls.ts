import type { CallError, CallName, InnerCalls, Settlement, ToEngine } from './protocol.ts'

/** Answers one call of each name. `signal` aborts when the caller cancels the call; `handle` came with the message. */
export type Handlers<Handle> = {
  readonly [Name in CallName]: (
    parameters: InnerCalls[Name]['parameters'],
    signal: AbortSignal,
    handle?: Handle,
  ) => Promise<InnerCalls[Name]['result']>
}

/**
 * Returns a function that answers the messages of one caller. Each call gets one reply, in whatever order they end. A
 * handler is entered before the function returns, so that a handle is taken over at once.
 */
export function serveCalls<Handle = never>(
  handlers: Handlers<Handle>,
  post: (message: Settlement) => void,
): (message: ToEngine, handle?: Handle) => void {
  const running = new Map<number, AbortController>()

  const answer = async (message: Extract<ToEngine, { type: 'request' }>, handle?: Handle): Promise<void> => {
    const { id, name } = message
    const cancel = new AbortController()
    running.set(id, cancel)
    try {
      const handler = handlers[name] as Handlers<Handle>[CallName] as (
        parameters: unknown,
        signal: AbortSignal,
        handle?: Handle,
      ) => Promise<InnerCalls[CallName]['result']>
      post({ type: 'reply', id, result: await handler(message.parameters, cancel.signal, handle) })
    } catch (error) {
      post({ type: 'failure', id, error: errorOf(error) })
    } finally {
      running.delete(id)
    }
  }

  return (message, handle) => {
    if (message.type === 'cancel') running.get(message.id)?.abort(new Error('the call was canceled'))
    else void answer(message, handle)
  }
}

/** Returns an error as data. */
export function errorOf(error: unknown): CallError {
  if (!(error instanceof Error)) return { message: String(error), code: null }
  const { code } = error as NodeJS.ErrnoException
  return { message: error.message, code: code ?? null }
}
