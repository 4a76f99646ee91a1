import { RuntimeError } from '../../runtime.ts'
import type { Engine } from '../engine/engine.ts'
import { EngineError, tooLong, unlessMissing } from '../engine/error.ts'
import type { Image } from './types.ts'

/** The configuration of an image is kept in memory, and its labels are in each list of containers. Usual ones have some kilobytes. */
const mostConfigBytes = 256_000
/** With its layers, of which there are some dozens. */
const mostImageBytes = 4_000_000

/**
 * Returns what the engine knows of an image; null when there is no such image.
 *
 * @param name or its id
 */
export const inspectImage = (engine: Pick<Engine, 'call'>, name: string): Promise<Image | null> =>
  unlessMissing(engine.call<Image>({ method: 'GET', path: ['images', name, 'json'], mostBytes: mostImageBytes }), null)

/**
 * As `inspectImage`, for an image that somebody wants to deploy.
 *
 * @param shown its name for messages
 * @throws RuntimeError when its configuration is too large
 */
export async function inspectForeign(engine: Pick<Engine, 'call'>, name: string, shown: string): Promise<Image | null> {
  const image = await inspectImage(engine, name).catch((error: unknown) => {
    throw error instanceof EngineError && error.status === tooLong ? configTooLarge(shown) : error
  })
  if (Buffer.byteLength(JSON.stringify(image?.Config ?? null)) > mostConfigBytes) throw configTooLarge(shown)
  return image
}

const configTooLarge = (shown: string): RuntimeError =>
  new RuntimeError(
    'too_large',
    `The configuration of ${shown} has more than ${mostConfigBytes / 1_000} kB: its labels, its variables, its command and its health check together. Make them smaller.`,
  )
