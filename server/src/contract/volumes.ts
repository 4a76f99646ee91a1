import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { volumeProblem } from './volume-rules.ts'

export const imageVolumes = z
  .record(z.string(), z.string({ error: 'must be an absolute path' }), {
    error: 'must be paths by names, such as { "uploads": "/var/lib/uploads" }',
  })
  .superRefine((volumes, context) => {
    const problem = volumeProblem(volumes)
    if (problem === null) return
    context.addIssue({ code: 'custom', message: problem.message, path: problem.name === null ? [] : [problem.name] })
  })
  .describe(
    'Only with `image`: folders of the app that outlive releases, the absolute path of each in the container by its' +
      ' name, such as `{ "uploads": "/var/lib/uploads" }`; at most 8. Later images of the app keep them until a ' +
      'deployment names other volumes. The files of a volume that is no longer named stay (`volumes.list`).',
  )

const volumes = z.object({
  max_bytes: z
    .int()
    .describe("The disk space that the project's plan allows the app, for its release, its folders and its volumes."),
  volumes: z.array(
    z.object({
      name: z.string(),
      path: z
        .string()
        .nullable()
        .describe('Its path in the running or newest release; `null` when that does not name it.'),
      bytes: z.int().nonnegative().nullable().describe('Its size on the disk; `null` when it cannot be read.'),
    }),
  ),
})

export const volumeOperations = {
  'volumes.list': {
    summary: 'List the volumes of an app',
    description:
      'The folders of the app that outlive its releases, each with its size: those that `volumes` in ' +
      '`fairlead.json` or of an image names, and those that no release names any more.',
    response: volumes,
  },
  'volumes.update': {
    summary: 'Delete volumes of an app',
    description:
      'Deletes volumes with their files, for good. Refused (400) for a volume of the running or newest release, and' +
      ' while the app is being deployed. Returns the remaining volumes.',
    body: z.object({
      delete: z
        .array(z.string({ error: 'must be the name of a volume' }), { error: 'must be a list of names' })
        .min(1, 'must have at least one name')
        .max(100, 'must have at most 100 names')
        .describe('The names of the volumes.'),
    }),
    response: volumes,
  },
} as const satisfies Declarations<'volumes'>
