import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import { z } from 'zod'
import type { Logger } from './logger.ts'
import { startProcess } from './processes.ts'

/** A server that has taken the listening socket, and answers on it. */
export interface Successor {
  readonly pid: number
  readonly version: string
}

export interface HandOverOptions {
  /** The server whose socket is handed over; it keeps accepting until its owner retires it. */
  readonly listener: Server
  /** The program of the successor and its arguments, with `successorOption` among them. */
  readonly program: readonly [file: string, ...args: string[]]
  /** The time for the successor to become ready, in milliseconds. */
  readonly deadlineMs: number
  readonly logger: Pick<Logger, 'info'>
  /** An abort gives up, and ends the successor. */
  readonly signal: AbortSignal
}

/** Thrown when the successor did not become ready. It has ended, and the message says why. */
export class HandoverError extends Error {
  override readonly name = 'HandoverError'
}

const keptLines = 10
/**
 * Extra time for a successor that has the socket, because it may hold accepted connections. A busy service manager may
 * take ten seconds to read which process is the main process.
 */
const listeningMs = 20_000

/**
 * Starts a successor that outlives this process, and gives it the listening socket once it is prepared. Resolves when
 * it answers. Otherwise rejects with a `HandoverError`, and the socket belongs only to this process, as before.
 */
export async function handOver(options: HandOverOptions): Promise<Successor> {
  const { program, logger } = options
  const [file, ...args] = program
  // The successor continues this server's log.
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
    // Messages of unknown types are ignored.
    if (data !== undefined) (answers[data.type] as (message: FromSuccessor) => void)(data)
  }
  child.on('message', onMessage)
  child.on('error', (error) => fail(`cannot be started: ${error.message}`))
  // `close` comes after the last message, which may hold the reason.
  child.on('close', (code, ended) => fail(`ended before it was ready (${ended ?? `exit status ${code}`}).`))
  signal.addEventListener('abort', abort)
  if (signal.aborted) abort()
  return promise.finally(() => {
    clearTimeout(timer)
    child.off('message', onMessage)
    signal.removeEventListener('abort', abort)
  })
}

export interface Takeover {
  readonly host: string
  readonly port: number
  /** Passes on a line of the log, for the reason of a failed start. */
  log(line: string): void
  /** Asks for the listening socket, once everything behind it is prepared. It accepts from then on. */
  listener(): Promise<Server>
  /**
   * Reports that this server answers, and that a service manager knows it. The other server then stops accepting and
   * ends.
   */
  ready(): Promise<void>
  failed(error: unknown): Promise<void>
}

/** Connects to the server that started this process. Rejects when there is none. */
export async function receiveTakeover(version: string): Promise<Takeover> {
  if (process.send === undefined) throw new Error('Only a running server starts its successor; use fairlead reload.')
  const started = next('start')
  await send({ type: 'hello', version })
  const [{ host, port }] = await started
  return {
    host,
    port,
    log: (line) => void send({ type: 'log', line }),
    async listener() {
      const given = next('listener')
      await send({ type: 'prepared' })
      const [, listener] = await given
      if (listener === undefined) throw new Error('The listening socket did not arrive.')
      return listener
    },
    async ready() {
      await send({ type: 'ready' })
    },
    failed: (error) => send({ type: 'failed', reason: error instanceof Error ? error.message : String(error) }),
  }
}

/** Also resolves when the other server is gone: this server then continues without it. */
function send(message: FromSuccessor): Promise<void> {
  if (!process.connected) return Promise.resolve()
  return new Promise((done) => process.send?.(message, undefined, undefined, () => done()))
}

type Of<Type extends ToSuccessor['type']> = Extract<ToSuccessor, { type: Type }>

/**
 * The other server normally answers at once. After this silence it hangs; when it recovers, it continues without this
 * server.
 */
const answerMs = 60_000

/**
 * Resolves with the next message of a type, and the socket that came with it. Rejects when the other server has gone,
 * or does not answer.
 */
async function next<Type extends ToSuccessor['type']>(type: Type): Promise<[Of<Type>, Server | undefined]> {
  const gone = new AbortController()
  const leave = () => gone.abort(new Error('The server that is to hand over has ended.'))
  process.once('disconnect', leave)
  const late = setTimeout(
    () => gone.abort(new Error(`The server that is to hand over has not answered for ${answerMs / 1000} s.`)),
    answerMs,
  )
  try {
    for (;;) {
      const [given, handle] = (await once(process, 'message', { signal: gone.signal })) as [unknown, Server | undefined]
      const { data } = toSuccessor.safeParse(given)
      if (data?.type === type) return [data as Of<Type>, handle]
    }
  } catch (error) {
    throw gone.signal.aborted ? gone.signal.reason : error
  } finally {
    clearTimeout(late)
    process.off('disconnect', leave)
  }
}

/*
 * A server starts its successor with an IPC channel and hands it the listening socket. Both accept for a moment, so no
 * connection is refused in between.
 *
 *   successor                     server
 *   hello                  ─▶
 *                          ◀─     start (the address)
 *   log …                  ─▶
 *   prepared               ─▶
 *                          ◀─     listener (with the socket)
 *   ready                  ─▶     stops accepting, finishes, and ends
 *
 * `failed` may come at any time. The two may be of different versions, so messages are only ever added.
 */

/** The option of `fairlead serve` by which a server knows that it is a successor. */
export const successorOption = '--successor'

const fromSuccessor = z.discriminatedUnion('type', [
  z.object({ type: z.literal('hello'), version: z.string() }),
  /** A log line of the start. The last lines are the reason when the start fails without a reason. */
  z.object({ type: z.literal('log'), line: z.string() }),
  z.object({ type: z.literal('prepared') }),
  z.object({ type: z.literal('ready') }),
  z.object({ type: z.literal('failed'), reason: z.string() }),
])

type FromSuccessor = Readonly<z.output<typeof fromSuccessor>>

const toSuccessor = z.discriminatedUnion('type', [
  z.object({ type: z.literal('start'), host: z.string(), port: z.int() }),
  z.object({ type: z.literal('listener') }),
])

type ToSuccessor = Readonly<z.output<typeof toSuccessor>>
