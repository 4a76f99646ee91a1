import { once } from 'node:events'
import type { Server } from 'node:net'
import { type FromSuccessor, type ToSuccessor, toSuccessor } from './protocol.ts'

/** The side of a successor. */
export interface Takeover {
  /** The address of the socket that it will get. */
  readonly host: string
  readonly port: number
  /** Passes on a line of the log, for the reason of a start that fails. */
  log(line: string): void
  /** Asks for the listening socket, once everything behind it is prepared. It accepts from then on. */
  listener(): Promise<Server>
  /** Says that this server answers, and that a service manager knows it; the other one stops accepting, and ends. */
  ready(): Promise<void>
  /** Says why this server cannot start. */
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

/** Resolves also when the other server has gone: this one then goes on without it. */
function send(message: FromSuccessor): Promise<void> {
  if (!process.connected) return Promise.resolve()
  return new Promise((done) => process.send?.(message, undefined, undefined, () => done()))
}

type Of<Type extends ToSuccessor['type']> = Extract<ToSuccessor, { type: Type }>

/** The other server answers at once. One that does not for so long hangs, and goes on without this one when it is back. */
const answerMs = 60_000

/**
 * Resolves with the next message of a type, and the socket that came with it. Rejects when the other server has gone, or does not
 * answer.
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
