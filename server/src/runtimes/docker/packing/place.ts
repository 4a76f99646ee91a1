import { z } from 'zod'
import type { ReleasePlace } from '../../built-release.ts'

/** The label of an image that was made of a release that was built in folders: the places that its commands know. */
export const placeLabel = 'app.fairlead.place'

const absolute = z.string().startsWith('/')
const shape = z.object({ source: absolute, home: absolute, temporary: absolute, bin: absolute })

/** Returns the places in an image; null for an image that was made in any other way. A forged label gives its own container another environment alone. */
export function placeOf(labels: Readonly<Record<string, string>> | null | undefined): ReleasePlace | null {
  const text = labels?.[placeLabel]
  if (text === undefined) return null
  try {
    return shape.parse(JSON.parse(text))
  } catch {
    return null
  }
}
