import type { z } from 'zod'

/** Thrown for a wrong configuration. The message has one line for each wrong variable. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

export function configError(problems: readonly string[]): ConfigError {
  return new ConfigError(`The configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`)
}

/** Lists what zod found wrong, each as the name of the variable and what it must be, never its value. */
export function problemsOf(error: z.ZodError): string[] {
  return error.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`)
}
