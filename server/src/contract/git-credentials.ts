import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { gitToken } from './deployments.ts'
import { timestamp } from './fields.ts'

const gitCredentialKinds = ['token', 'deploy_key'] as const

const gitAccess = z.object({
  git_credentials: z
    .object({
      kind: z.enum(gitCredentialKinds),
      git_url: z.string().describe('The repository of the credentials. Its submodules on the same host also get them.'),
      public_key: z
        .string()
        .nullable()
        .describe(
          "The public part of a deploy key, in the form that the repository's host expects; `null` for a token.",
        ),
      fingerprint: z
        .string()
        .nullable()
        .describe('The fingerprint of the public part, such as `SHA256:…`; `null` for a token.'),
      created_at: timestamp,
    })
    .nullable()
    .describe('`null` without.'),
  known_hosts: z
    .array(
      z.object({
        host: z.string().describe('With the port, such as `example.com:22`.'),
        fingerprint: z.string().describe('The fingerprint of its key, such as `SHA256:…`.'),
        met_at: timestamp,
      }),
    )
    .describe("The ssh hosts of the app's deployments. Another key of a listed host is refused."),
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
        "The repository of the credentials. Defaults to the app's repository; for a deploy key, to its address for " +
          'ssh (`git@host:path`).',
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
      'The credentials of an app for its repository, without the secret, and the ssh hosts that the app knows.',
    response: gitAccess,
  },
  'gitCredentials.set': {
    summary: 'Store git credentials of an app',
    description:
      'Stores credentials for a private repository and replaces earlier ones. Every later deployment of this ' +
      '`git_url` uses them, unless it has a `git_token`. A token is sent only to the host of `git_url`, for the ' +
      'repository and its submodules there; the private part of a deploy key stays in the server.',
    body: newCredentials.meta({ examples: [{ kind: 'deploy_key', git_url: 'git@example.com:team/shop.git' }] }),
    response: gitAccess,
  },
  'gitCredentials.delete': {
    summary: 'Delete the git credentials of an app',
    description: 'Later deployments have no credentials. Releases stay as they are.',
  },
  'gitCredentials.forgetHosts': {
    summary: 'Forget the ssh hosts of an app',
    description:
      'The next deployment accepts the key that a host shows, and keeps it. Do this when the owner of a host has ' +
      'changed its key; afterwards, check the new key in the list.',
  },
} as const satisfies Declarations<'gitCredentials'>
