import type { Socket } from 'node:net'
import type { CallError, CallName, InnerCalls, Settlement, ToEngine } from './calls.ts'

/**
 * A call fails after this time plus the time in its parameters. A hanging process is replaced sooner (`watch.ts`), so
 * only forgotten calls and calls that wait for a disk fail here.
 */
const answerMs = 30_000

/** The error code of calls that were not answered in time. */
export const callOverdue = 'GATEWAY_CALL_OVERDUE'
/** The error code of calls for which no gateway could be reached. */
export const gatewayUnreachable = 'GATEWAY_UNREACHABLE'

/**
 * Makes a call. An abort of `signal` cancels it; the reply follows. Rejects with code `GATEWAY_CALL_OVERDUE` when the
 * reply does not come in time.
 */
export type Call = <Name extends CallName>(
  name: Name,
  parameters: InnerCalls[Name]['parameters'],
  signal?: AbortSignal,
) => Promise<InnerCalls[Name]['result']>

export interface PendingCalls<Handle> {
  call<Name extends CallName>(
    name: Name,
    parameters: InnerCalls[Name]['parameters'],
    signal?: AbortSignal,
    handle?: Handle,
  ): Promise<InnerCalls[Name]['result']>
  settle(message: Settlement): void
  /** Rejects all pending and all later calls. */
  fail(error: Error): void
}

/** Creates the calls of a connection. An id links each call to its reply. */
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

/** Returns the additional time in the parameters, such as the time for requests to finish. */
function allowedMs(parameters: InnerCalls[CallName]['parameters']): number {
  return parameters !== null && 'timeoutMs' in parameters ? parameters.timeoutMs : 0
}

function overdue(name: CallName): Error {
  return Object.assign(new Error(`the gateway has not answered the call ${name}`), { code: callOverdue })
}

function errorOf({ message, code }: CallError): Error {
  return code === null ? new Error(message) : Object.assign(new Error(message), { code })
}

/** One handler for each call. `signal` aborts when the caller cancels the call; `handle` came with the message. */
export type Handlers<Handle> = {
  readonly [Name in CallName]: (
    parameters: InnerCalls[Name]['parameters'],
    signal: AbortSignal,
    handle?: Handle,
  ) => Promise<InnerCalls[Name]['result']>
}

/**
 * Answers the messages of one caller: one reply to each call, in any order. A handler starts before the function
 * returns, so that it takes over a handle at once.
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
      post({ type: 'failure', id, error: callErrorOf(error) })
    } finally {
      running.delete(id)
    }
  }

  return (message, handle) => {
    if (message.type === 'cancel') running.get(message.id)?.abort(new Error('the call was canceled'))
    else void answer(message, handle)
  }
}

export function callErrorOf(error: unknown): CallError {
  if (!(error instanceof Error)) return { message: String(error), code: null }
  const { code } = error as NodeJS.ErrnoException
  return { message: error.message, code: code ?? null }
}

/** A longer line closes the connection. A message about ten thousand apps is shorter. */
const MAX_LINE_BYTES = 16 * 1024 * 1024

/**
 * Sends and receives one line of JSON for each message. A line that is too long or not a JSON object destroys the
 * connection, and so does an error in `receive`. Returns the function that sends.
 */
export function carryLines<In extends object, Out extends object>(
  socket: Socket,
  receive: (message: In) => void,
): (message: Out) => void {
  let parts: string[] = []
  let length = 0

  const add = (part: string): void => {
    length += part.length
    if (length > MAX_LINE_BYTES) throw new Error('a line is too long')
    parts.push(part)
  }

  const finish = (): void => {
    const line = parts.join('')
    parts = []
    length = 0
    const message: unknown = JSON.parse(line)
    if (typeof message !== 'object' || message === null) throw new Error('a message is not an object')
    receive(message as In)
  }

  socket.setEncoding('utf8')
  socket.on('data', (chunk: string) => {
    try {
      const [first = '', ...others] = chunk.split('\n')
      add(first)
      for (const part of others) {
        if (socket.destroyed) return
        finish()
        add(part)
      }
    } catch (error) {
      socket.destroy(error as Error)
    }
  })
  return (message) => {
    if (socket.writable) socket.write(`${JSON.stringify(message)}\n`)
  }
}

/** After a pause, such as by SIGSTOP, a process first reads what has arrived. */
const readingMs = 1_000

/**
 * Calls `expire` after `ms`. After a pause of the process (SIGSTOP), timers fire before messages arrive, so it first
 * gets a moment to read. Returns a function that cancels. Keeps no process running.
 */
export function startDeadline(ms: number, expire: () => void): () => void {
  let timer = setTimeout(() => {
    timer = setTimeout(expire, readingMs)
    timer.unref()
  }, ms)
  timer.unref()
  return () => clearTimeout(timer)
}
