import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { parseDotenv } from './dotenv.ts'
import { timestamp } from './fields.ts'

export const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a name of letters, digits and underscores that starts with no digit')

/** The platform sets these variables, so values of an app would have no effect. */
export const reservedVariables = [
  'PORT',
  'PATH',
  'HOME',
  'TMPDIR',
  'FAIRLEAD_DEPLOYMENT_ID',
  'FAIRLEAD_PROCESS_MARK',
  'FAIRLEAD_INSTANCE_MARK',
  'FAIRLEAD_CACHE',
] as const

export const freeVariableName = variableName.refine(
  (name) => !(reservedVariables as readonly string[]).includes(name),
  {
    error: 'is set by the platform; choose another name',
  },
)

export const mostVariables = 200
/**
 * The most bytes of all names and values of one app's variables, in UTF-8. A limit, because all output of the app is
 * searched for each value.
 */
export const mostVariableBytes = 64 * 1024
/** Linux limits one variable to 128 KiB, and a character takes up to 4 bytes in UTF-8. */
const longestVariable = 32_000

const variableValue = z
  .string({ error: 'must be a string' })
  .max(longestVariable, `must be at most ${longestVariable} characters`)
  .refine((value) => !value.includes('\0'), 'must not contain a NUL character')
  .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')

/** Returns the violated rule for too many or too large variables; otherwise null. */
export function variablesProblem(given: unknown): string | null {
  const entries = Object.entries(Object(given))
  if (entries.length > mostVariables) return `at most ${mostVariables} variables`
  const encoder = new TextEncoder()
  const bytesOf = (text: unknown) => (typeof text === 'string' ? encoder.encode(text).length : 0)
  const bytes = entries.reduce((sum, [name, value]) => sum + bytesOf(name) + bytesOf(value), 0)
  return bytes > mostVariableBytes ? `at most ${mostVariableBytes} bytes of names and values` : null
}

// Number and size first, so that a huge object is not validated entry by entry.
export const variables = z
  .custom<Readonly<Record<string, string>>>((given) => variablesProblem(given) === null, {
    error: ({ input }) => `must be ${variablesProblem(input)}`,
    abort: true,
  })
  .pipe(z.record(variableName, variableValue, { error: 'must be an object of strings' }))
  .superRefine((given, context) => {
    for (const variable of reservedVariables) {
      if (Object.hasOwn(given, variable)) {
        context.addIssue({ code: 'custom', path: [variable], message: 'is set by the platform; choose another name' })
      }
    }
  })

export const variableNames = z
  .array(variableName, { error: 'must be an array of names' })
  .max(mostVariables, `must be at most ${mostVariables} names`)

/** Plain variables can be read again, secret variables never. */
export const variableKinds = ['plain', 'secret'] as const
export type VariableKind = (typeof variableKinds)[number]

const kind = z.enum(variableKinds, { error: `must be one of: ${variableKinds.join(', ')}` })

const names = z.array(z.string())

const state = z.object({
  variables: z
    .array(
      z.object({
        name: z.string(),
        kind,
        value: z
          .string()
          .nullable()
          .describe('`null` for a secret variable, and for a key without the permission `deployments:write`.'),
        updated_at: timestamp,
      }),
    )
    .describe('Sorted by name.'),
  deployment_id: z.string().describe('The deployment that `apps.apply` deploys; the next fields describe it.'),
  env_vars: names.describe('The names of the `env_vars` of that deployment, which take precedence, sorted.'),
  pending: z
    .object({ added: names, changed: names, removed: names })
    .describe('The names of variables that would change with `apps.apply`, sorted.'),
})

/** More than all variables of an app, and equal to the limit for a text in a body. */
const longestDotenv = 200_000

const dotenv = z
  .string({ error: 'must be a string' })
  .max(longestDotenv, `must be at most ${longestDotenv} characters`)
  .transform((text, context) => {
    const read = parseDotenv(text)
    if (read.ok) return read.variables
    context.addIssue({ code: 'custom', message: `line ${read.line}: ${read.message}` })
    return z.NEVER
  })
  .pipe(variables)
  .meta({ examples: ['LEVEL=debug'] })

export const variableOperations = {
  'variables.list': {
    summary: 'List the variables of an app',
    description:
      'The variables of the app, the `env_vars` of its deployment, and the changes since that deployment. A release' +
      ' keeps the variables of its creation; `apps.apply` makes a release with the current variables.',
    response: state,
  },
  'variables.update': {
    summary: 'Change the variables of an app',
    description:
      'Sets the variables in `set` and `dotenv`, and removes the variables in `unset`. This does not deploy: later ' +
      'releases have the variables, and so has the app after `apps.apply`.',
    body: z.object({
      set: variables.optional().describe('Variables by name, stored encrypted.'),
      dotenv: dotenv
        .optional()
        .describe('The text of a dotenv file. A variable that is also in `set` gets its value from there.'),
      kind: kind
        .optional()
        .describe(
          'The kind of the variables that are set. Without it, each variable keeps its kind, and new variables are ' +
            '`secret`.',
        ),
      unset: variableNames
        .optional()
        .describe('Names of variables to remove. An unknown name is an error, and so is a name that is also set.'),
    }),
    response: state,
  },
  'variables.copy': {
    summary: 'Copy variables of another app',
    description:
      'Copies variables of an app of the same account, with their kinds. Variables with the same names are replaced.',
    body: z.object({
      from: z.string({ error: 'must be the id of an app' }).describe('The id of the app to copy from.'),
      from_project: z
        .string({ error: 'must be the id of a project' })
        .optional()
        .describe('The id of its project, if that is another project. The key must have access to it.'),
      names: variableNames.optional().describe('The names of the variables to copy; all unless given.'),
    }),
    response: state,
  },
  'variables.adopt': {
    summary: 'Move the variables of a deployment to its app',
    description:
      'The `env_vars` of the deployment `deployment_id` that `variables.list` names become secret variables of the ' +
      'app, in place of variables with the same names. This affects neither the running release nor the changes of ' +
      'a later `apps.apply`.',
    response: state,
  },
} as const satisfies Declarations<'variables'>
