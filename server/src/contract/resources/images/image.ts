import { z } from 'zod'
import { formatImageReference, longestReference, parseImageReference } from '../../image-reference.ts'

/** An image that is deployed, as a request names it; parsed to its whole reference, with registry and tag. */
export const imageToDeploy = z
  .string({ error: 'must be a string' })
  .max(longestReference, `must be at most ${longestReference} characters`)
  .transform((text, context) => {
    const parsed = parseImageReference(text)
    if (!('problem' in parsed)) return formatImageReference(parsed)
    context.addIssue({ code: 'custom', message: parsed.problem })
    return z.NEVER
  })
  .describe(
    'A container image, in place of `git_url` and all that belongs to it: `registry/name:tag` or ' +
      '`registry/name@sha256:…`. Names without a registry are of Docker Hub. The tag is resolved once, and the digest ' +
      'kept. The project may have credentials for the registry (`registries.set`). Needs a server that runs containers.',
  )

/** The image that a deployment was created with. */
export const deployedImage = z
  .object({
    reference: z.string().describe('As it was asked for, with registry and tag.'),
    digest: z.string().nullable().describe('`sha256:…`, by which it was deployed; `null` before it is known.'),
  })
  .nullable()
  .describe('The image that it was created with; `null` for a repository or an uploaded source.')
