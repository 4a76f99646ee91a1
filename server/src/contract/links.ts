import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { timestamp } from './fields.ts'
import { freeVariableName } from './variables.ts'

const variable = freeVariableName
  .default('DATABASE_URL')
  .describe('The variable for the connection string. Defaults to `DATABASE_URL`.')

export const linkOfDatabase = z.object({
  app: z.string({ error: 'must be the id of an app' }).describe('The id of an app of the project.'),
  variable,
})

const link = z.object({
  id: z.string().describe('`link_…`.'),
  app_id: z.string(),
  app_name: z.string(),
  database_id: z.string(),
  database_name: z.string(),
  variable: z.string(),
  created_at: timestamp,
})

export const linkOperations = {
  'links.list': {
    summary: 'List the links between apps and databases',
    description: 'The links of all apps and databases of the project, newest first.',
    response: z.object({ links: z.array(link) }),
  },
  'links.create': {
    summary: 'Link a database to an app',
    description:
      'Later releases of the app have the connection string of the database in a variable, and so has the app after' +
      ' `apps.apply`. A rotation of the password changes the connection string in releases, and replaces the ' +
      'serving instances. A key also needs the permission `databases:write`. Refused (400) when the app has a ' +
      'variable of this name, or a link of this name to another database; an existing link is returned as it is.',
    body: z.object({
      ...linkOfDatabase.shape,
      database: z.string({ error: 'must be the id of a database' }).describe('The id of a database of the project.'),
    }),
    response: link,
  },
  'links.delete': {
    summary: 'Unlink a database from an app',
    description: 'Later releases do not have the variable. The running release keeps it until `apps.apply`.',
  },
} as const satisfies Declarations<'links'>
