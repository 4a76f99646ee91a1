import { readDotenv } from '@fairlead/server/dotenv'

/** The variables of an app by name. */
export type Variables = Readonly<Record<string, string>>

/** The variables, or all problems with them. Problems name lines and variables, but never a value. */
export type VariablesRead = { readonly value: Variables } | { readonly problems: readonly string[] }

const validName = /^[A-Za-z_][A-Za-z0-9_]*$/
const nameRule = 'a name is letters, digits and underscores and starts with no digit'

/** Reads the input `env-vars`: a JSON object of strings, or lines of NAME=VALUE. */
export function parseVariables(text: string): VariablesRead {
  return text.trimStart().startsWith('{') ? parseJson(text) : parseLines(text)
}

function parseJson(text: string): VariablesRead {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (error) {
    // Only the line number is taken from the error, because its message quotes the text, which may contain a secret.
    const line = /\(line (\d+) column \d+\)$/.exec(String(error))?.[1]
    return { problems: [`${line === undefined ? '' : `line ${line}: `}is not valid JSON`] }
  }
  // An object, because the text starts with a brace.
  const object = parsed as Record<string, unknown>
  const problems = Object.entries(object).flatMap(([name, value]) => {
    if (!validName.test(name)) return [`${JSON.stringify(name)}: ${nameRule}`]
    return typeof value === 'string' ? [] : [`${name}: must be a string; write the value in double quotes`]
  })
  return problems.length > 0 ? { problems } : { value: object as Variables }
}

function parseLines(text: string): VariablesRead {
  const { variables, problems } = readDotenv(text)
  if (problems.length === 0) return { value: variables }
  return { problems: problems.map(({ line, message }) => `line ${line}: ${message}`) }
}

// Common values that are not secret. Masks would blank them out of all later log lines.
const notSecret: readonly string[] = ['production', 'development', 'building', 'canceled', 'superseded']

/**
 * Returns the texts that the runner should mask: the lines of all values, because it masks line by line. Lines of up to
 * 7 characters are not masked, because masking, for example, the opening brace of a JSON value would make the log
 * unreadable. Parts of a `visible` text are not masked, because GitHub does not pass outputs with masked parts on to
 * other jobs.
 */
export function secretsIn(variables: Variables, visible: readonly string[]): readonly string[] {
  const lines = Object.values(variables).flatMap((value) => value.split(/[\r\n]+/).map((line) => line.trim()))
  const secrets = lines.filter((line) => {
    return line.length > 7 && !notSecret.includes(line) && !visible.some((text) => text.includes(line))
  })
  return [...new Set(secrets)]
}
