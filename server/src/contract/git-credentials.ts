import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { gitToken } from './deployments.ts'
import { timestamp } from './fields.ts'

const gitCredentialKinds = ['token', 'deploy_key'] as const

const gitAccess = z.object({
  git_credentials: z
    .object({
      kind: z.enum(gitCredentialKinds),
      git_url: z
        .string()
        .describe('The repository that they are for. Besides it, its submodules on the same host get them.'),
      public_key: z
        .string()
        .nullable()
        .describe('The public part of a deploy key, as the host of the repository takes it; `null` for a token.'),
      fingerprint: z.string().nullable().describe('Of the public part, such as `SHA256:…`; `null` for a token.'),
      created_at: timestamp,
    })
    .nullable()
    .describe('`null` without.'),
  known_hosts: z
    .array(
      z.object({
        host: z.string().describe('With the port, such as `example.com:22`.'),
        fingerprint: z.string().describe('Of its key, such as `SHA256:…`.'),
        met_at: timestamp,
      }),
    )
    .describe('The ssh hosts that deployments of the app have met. Another key of one of them is refused.'),
})

const newCredentials = z
  .object({
    kind: z
      .enum(gitCredentialKinds, { error: `must be one of: ${gitCredentialKinds.join(', ')}` })
      .describe('`token` for https; `deploy_key` for ssh: the server makes a key, and shows its public part.'),
    token: gitToken
      .optional()
      .describe('For the kind `token`: a token, or `user:password`. Stored encrypted, and never returned.'),
    git_url: z
      .string({ error: 'must be a string' })
      .max(2000, 'must be at most 2000 characters')
      .optional()
      .describe(
        'The repository that they are for. Defaults to that of the app; for a deploy key, to its address for ssh ' +
          '(`git@host:path`).',
      ),
  })
  .superRefine(({ kind, token }, context) => {
    if (kind === 'token' && token === undefined) {
      context.addIssue({ code: 'custom', path: ['token'], message: 'is required for the kind token' })
    }
    if (kind !== 'token' && token !== undefined) {
      context.addIssue({ code: 'custom', path: ['token'], message: 'must not be given: the server makes the key' })
    }
  })

export const gitCredentialOperations = {
  'gitCredentials.get': {
    summary: 'Read the git credentials of an app',
    description:
      'Tells which credentials an app has for its repository, without the secret, and the ssh hosts that it knows.',
    response: gitAccess,
  },
  'gitCredentials.set': {
    summary: 'Store git credentials of an app',
    description:
      'Stores credentials for a private repository and replaces earlier ones. Every further deployment of this ' +
      '`git_url` uses them, unless it has a `git_token`. A token is sent to the host of `git_url` alone, for the repository ' +
      'and its submodules there; the private part of a deploy key stays in the server.',
    body: newCredentials.meta({ examples: [{ kind: 'deploy_key', git_url: 'git@example.com:team/shop.git' }] }),
    response: gitAccess,
  },
  'gitCredentials.delete': {
    summary: 'Delete the git credentials of an app',
    description: 'Further deployments do without. Releases stay as they are.',
  },
  'gitCredentials.forgetHosts': {
    summary: 'Forget the ssh hosts of an app',
    description:
      'The next deployment accepts the key that a host shows, and keeps it. Do this when the owner of a host has changed ' +
      'its key; check the new one on the list afterwards.',
  },
} as const satisfies Declarations<'gitCredentials'>
