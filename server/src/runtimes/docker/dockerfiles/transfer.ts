import type { Engine } from '../engine/engine.ts'
import { readJsonLines } from '../engine/streams.ts'

/**
 * Copies an image from one engine to another, with its name. Nothing is kept in between.
 *
 * @throws EngineError, or an Error when the other engine refuses the image
 */
export async function copyImage(
  from: Pick<Engine, 'open'>,
  to: Pick<Engine, 'open'>,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const archive = await from.open({ method: 'GET', path: ['images', name, 'get'], signal, timeoutMs: 0 })
  const answer = await to.open({
    method: 'POST',
    path: ['images', 'load'],
    query: { quiet: true },
    upload: archive,
    signal,
    timeoutMs: 0,
  })
  for await (const { error } of readJsonLines<{ readonly error?: string }>(answer)) {
    if (error !== undefined) throw new Error(`the engine does not take the image: ${error}`)
  }
  signal.throwIfAborted()
}
