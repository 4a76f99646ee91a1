import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { timestamp } from './fields.ts'

const source = z.object({
  id: z.string().describe('`src_…`.'),
  created_at: timestamp,
  size: z.int().nonnegative().describe('Of the bundle, in bytes.'),
  commit: z.string().describe('The full hash of the commit that a deployment of it builds.'),
  branch: z.string().nullable().describe('`null` when the head of the bundle is `HEAD`.'),
})

export const sourceOperations = {
  'sources.create': {
    summary: 'Upload a source',
    description:
      'Accepts one git bundle (`git bundle create app.bundle main`), as it is, with `Content-Type: ' +
      'application/x-git-bundle`, for deployments with `source_id`. It has exactly one head, a branch or `HEAD`, ' +
      'whose files are all in the bundle; its history may be missing. It may be as large as the largest file of the' +
      ' plan. The sources of the newest deployment of each app, and of building and running deployments, are kept; ' +
      'other sources are removed after some days without use (7, unless the operator has set another number), or ' +
      'earlier when the account has too many.',
    response: source,
  },
} as const satisfies Declarations<'sources'>
