import type { EnginePort } from '../control/channel.ts'
import type { CallError, CallName, ToEngine } from '../control/protocol.ts'
import type { Engine } from './engine.ts'

/** Answers the calls that arrive on a port. Each call gets one reply, in whatever order they end. */
export function serveCalls(port: EnginePort, engine: Engine): void {
  const running = new Map<number, AbortController>()

  const answer = async (message: Extract<ToEngine, { type: 'request' }>): Promise<void> => {
    const { id, name } = message
    const cancel = new AbortController()
    running.set(id, cancel)
    try {
      const result = await call(engine, name, message.parameters, cancel.signal)
      port.post({ type: 'reply', id, result })
    } catch (error) {
      port.post({ type: 'failure', id, error: errorOf(error) })
    } finally {
      running.delete(id)
    }
  }

  port.receive((message) => {
    if (message.type === 'cancel') running.get(message.id)?.abort(new Error('the call was cancelled'))
    else void answer(message)
  })
}

function call<Name extends CallName>(
  engine: Engine,
  name: Name,
  parameters: Parameters<Engine[Name]>[0],
  signal: AbortSignal,
) {
  const handler = engine[name] as (parameters: unknown, signal: AbortSignal) => ReturnType<Engine[Name]>
  return handler(parameters, signal)
}

function errorOf(error: unknown): CallError {
  if (!(error instanceof Error)) return { message: String(error), code: null }
  const { code } = error as NodeJS.ErrnoException
  return { message: error.message, code: code ?? null }
}
