import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { volumeProblem } from './volume-rules.ts'

/** The volumes of an app from an image: the path of each volume, by its name. */
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
    'With `image` alone: folders of the app that are kept over releases, the absolute path of each in the container by its name, such ' +
      'as `{ "uploads": "/var/lib/uploads" }`; at most 8. They are those of further images of the app, too, until a deployment gives ' +
      'others. The files of one that is not named any more stay (`volumes.list`).',
  )

const volumes = z.object({
  max_bytes: z
    .int()
    .describe(
      'The most that the app may have on the disk, by the plan of its project: its release, its own folders and its volumes.',
    ),
  volumes: z.array(
    z.object({
      name: z.string(),
      path: z
        .string()
        .nullable()
        .describe('Its path in the release that runs, or was made last; `null` when that does not name it.'),
      bytes: z.int().nonnegative().nullable().describe('Its size on the disk; `null` when it cannot be read.'),
    }),
  ),
})

export const volumeOperations = {
  'volumes.list': {
    summary: 'List the volumes of an app',
    description:
      'The folders that the app keeps over its releases, as `volumes` in `fairlead.json` or of an image names them, and those that ' +
      'no release names any more, each with its size.',
    response: volumes,
  },
  'volumes.update': {
    summary: 'Delete volumes of an app',
    description:
      'Deletes volumes with their files, for good. Refused (400) for one that the release that runs, or was made last, names, and ' +
      'while the app is being deployed. Returns those that are left.',
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
