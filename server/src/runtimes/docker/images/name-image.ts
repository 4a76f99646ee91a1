import { RuntimeError } from '../../runtime.ts'
import type { Engine } from '../engine/engine.ts'
import { EngineError, isMissing, unlessMissing } from '../engine/error.ts'

/** Gives an image one more name. */
export async function nameImage(engine: Engine, image: string, name: string): Promise<void> {
  const [repo, tag] = name.split(':')
  try {
    await engine.call({ method: 'POST', path: ['images', image, 'tag'], query: { repo, tag } })
  } catch (error) {
    if (!isMissing(error)) throw error
    const message = 'The image of the release is not kept on this server any more. Deploy it again.'
    throw new RuntimeError('image_not_found', message)
  }
}

const mostAttempts = 5

/**
 * Takes a name from an image, and removes the image with it if it has no other one. An engine that removes two names of one image
 * at once fails with one of them, and does it when it is asked again.
 */
export async function forgetImage(engine: Engine, name: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await unlessMissing(engine.call({ method: 'DELETE', path: ['images', name] }), null)
      return
    } catch (error) {
      if (!(error instanceof EngineError) || error.status !== 500 || attempt === mostAttempts) throw error
    }
  }
}
