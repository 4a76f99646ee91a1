import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { printable, required, timestamp } from './fields.ts'
import { parseRegistry } from './image-reference.ts'

const registryCredentials = z.object({
  id: z.string().describe('`reg_…`.'),
  registry: z.string().describe('The host with its port, such as `registry.example.com`.'),
  username: z.string(),
  created_at: timestamp.describe('The time when the credentials were last stored.'),
})

/** Control characters could end a request header. */
const word = z
  .string(required('a string'))
  .min(1, 'must not be empty')
  .refine((value) => value.isWellFormed() && printable.test(value), 'must not contain control characters')

const newCredentials = z.object({
  registry: z
    .string(required('a string'))
    .max(255, 'must be at most 255 characters')
    .transform((text, context) => {
      const registry = parseRegistry(text)
      if (registry !== null) return registry
      context.addIssue({
        code: 'custom',
        message: 'must be the host of a registry and its port, if any, such as registry.example.com or docker.io',
      })
      return z.NEVER
    })
    .describe('The host of the registry with its port, as the names of its images begin: `docker.io` for Docker Hub.'),
  username: word
    .max(255, 'must be at most 255 characters')
    .refine((value) => !value.includes(':'), 'must not contain a colon'),
  password: word
    .max(10_000, 'must be at most 10000 characters')
    .describe('A password, or better a token that may only pull. Stored encrypted, and never returned.'),
})

export const registryOperations = {
  'registries.list': {
    summary: 'List credentials for registries',
    description: 'The registries for which the project has credentials, without the passwords. Newest first.',
    response: z.object({ registries: z.array(registryCredentials) }),
  },
  'registries.set': {
    summary: 'Store credentials for a registry',
    description:
      "Stores the name and password for pulls from one registry, and replaces the project's earlier credentials for" +
      ' it. They are sent to this registry and to its token address, for deployments of an `image` and for images ' +
      'that Dockerfiles name. Every app of the project may pull with them.',
    body: newCredentials.meta({
      examples: [{ registry: 'registry.example.com', username: 'deploy', password: 'a token that may pull' }],
    }),
    response: registryCredentials,
  },
  'registries.delete': {
    summary: 'Delete credentials for a registry',
    description: 'Later deployments have no credentials. Releases stay as they are, and can be rolled back to.',
  },
} as const satisfies Declarations<'registries'>
