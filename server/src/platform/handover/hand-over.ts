import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import type { Logger } from '../logger.ts'
import { startProcess } from '../processes.ts'
import { type FromSuccessor, fromSuccessor, type ToSuccessor } from './protocol.ts'

/** A server that has taken the listening socket, and answers on it. */
export interface Successor {
  readonly pid: number
  readonly version: string
}

export interface HandOverOptions {
  /** The server whose socket is handed over; it goes on to accept until its owner retires it. */
  readonly listener: Server
  /** The program of the successor and its arguments, with `successorOption` among them. */
  readonly program: readonly [file: string, ...args: string[]]
  /** How long the successor may take to become ready. */
  readonly deadlineMs: number
  readonly logger: Pick<Logger, 'info'>
  /** Gives up, and ends the successor. */
  readonly signal: AbortSignal
}

/** Thrown when the successor did not become ready. It has ended, and the message says why. */
export class HandoverError extends Error {
  override readonly name = 'HandoverError'
}

const keptLines = 10
/**
 * Once it has the socket, the successor may hold accepted connections, so it gets this much longer before it is ended. A
 * busy service manager may take ten seconds to read who the main process is.
 */
const listeningMs = 20_000

/**
 * Starts a successor that outlives this process, and hands it the listening socket once it is prepared. Resolves when it
 * answers. Rejects with a `HandoverError` when it does not; the socket then belongs to this process alone, as before.
 */
export async function handOver(options: HandOverOptions): Promise<Successor> {
  const { program, logger } = options
  const [file, ...args] = program
  // In the log of this server, because its log goes on to be the successor's.
  const child = startProcess(file, args, { detached: true, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const exited = once(child, 'exit').catch((error: unknown) => [error] as unknown[])
  try {
    const successor = await converse(child, options)
    child.disconnect()
    child.unref()
    logger.info({ ...successor }, 'another server has taken over the address')
    return successor
  } catch (error) {
    child.kill('SIGKILL')
    if (child.pid !== undefined) await exited
    throw error
  }
}

/** Answers the messages of the successor until it is ready. */
function converse(child: ChildProcess, { listener, deadlineMs, signal }: HandOverOptions): Promise<Successor> {
  const { promise, resolve, reject } = Promise.withResolvers<Successor>()
  const lines: string[] = []
  let version = ''
  const fail = (reason: string) => reject(new HandoverError([`The new server ${reason}`, ...lines].join('\n')))
  const overdue = () => fail(`did not become ready within ${deadlineMs / 1000} s.`)
  let timer = setTimeout(overdue, deadlineMs)
  const send = (message: ToSuccessor, handle?: Server) =>
    child.send(message, handle, (error) => {
      if (error !== null) fail(`cannot be reached: ${error.message}`)
    })
  const answers: {
    readonly [Type in FromSuccessor['type']]: (message: Extract<FromSuccessor, { type: Type }>) => void
  } = {
    hello(message) {
      version = message.version
      const { address, port } = listener.address() as AddressInfo
      send({ type: 'start', host: address, port })
    },
    log({ line }) {
      lines.push(line)
      if (lines.length > keptLines) lines.shift()
    },
    prepared() {
      clearTimeout(timer)
      timer = setTimeout(overdue, listeningMs)
      send({ type: 'listener' }, listener)
    },
    ready: () => resolve({ pid: child.pid ?? 0, version }),
    failed: ({ reason }) => fail(`cannot start: ${reason}`),
  }
  const abort = () => reject(signal.reason)
  const onMessage = (given: unknown) => {
    const { data } = fromSuccessor.safeParse(given)
    // Of a type that this version does not know.
    if (data !== undefined) (answers[data.type] as (message: FromSuccessor) => void)(data)
  }
  child.on('message', onMessage)
  child.on('error', (error) => fail(`cannot be started: ${error.message}`))
  // After the last message, which may hold the reason.
  child.on('close', (code, ended) => fail(`ended before it was ready (${ended ?? `exit status ${code}`}).`))
  signal.addEventListener('abort', abort)
  if (signal.aborted) abort()
  return promise.finally(() => {
    clearTimeout(timer)
    child.off('message', onMessage)
    signal.removeEventListener('abort', abort)
  })
}
