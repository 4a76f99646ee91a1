import { z } from 'zod'

export const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a name of letters, digits and underscores that starts with no digit')

/** Variables that the platform sets. It would override values that an app gives. */
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

/** The name of a variable that an app may have. */
export const freeVariableName = variableName.refine(
  (name) => !(reservedVariables as readonly string[]).includes(name),
  {
    error: 'is set by the platform; choose another name',
  },
)

/** The most variables of one app. */
export const mostVariables = 200
/** The most bytes of the names and values of the variables of one app, in UTF-8: all that it prints is searched for each of them. */
export const mostVariableBytes = 64 * 1024
/** Linux limits one variable to 128 KiB, and a character takes up to 4 bytes in UTF-8. */
const longestVariable = 32_000

const variableValue = z
  .string({ error: 'must be a string' })
  .max(longestVariable, `must be at most ${longestVariable} characters`)
  .refine((value) => !value.includes('\0'), 'must not contain a NUL character')
  .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')

/** Returns what variables must be where they are too many or too large; null where they are not. */
export function variablesProblem(given: unknown): string | null {
  const entries = Object.entries(Object(given))
  if (entries.length > mostVariables) return `at most ${mostVariables} variables`
  const encoder = new TextEncoder()
  const bytesOf = (text: unknown) => (typeof text === 'string' ? encoder.encode(text).length : 0)
  const bytes = entries.reduce((sum, [name, value]) => sum + bytesOf(name) + bytesOf(value), 0)
  return bytes > mostVariableBytes ? `at most ${mostVariableBytes} bytes of names and values` : null
}

// Number and size are checked first, so that a huge object is not validated entry by entry.
/** Variables and their values. */
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
