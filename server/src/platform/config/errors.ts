import type { z } from 'zod'

/** Thrown for a wrong configuration. The message has one line for each wrong variable. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

export function configError(problems: readonly string[]): ConfigError {
  return new ConfigError(`The configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`)
}

/** Lists zod's issues: the name of each variable and its requirement, never its value. */
export function problemsOf(error: z.ZodError): string[] {
  return error.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`)
}
