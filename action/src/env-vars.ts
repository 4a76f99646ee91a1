import { readDotenv } from '@fairlead/server/dotenv'

/** The variables of an app by name. */
export type Variables = Readonly<Record<string, string>>

/** What was read, or everything that is wrong with it. Problems name lines and variables, never a value. */
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
    // The engine's message quotes the text, which may hold a secret: only the line is taken from it.
    const line = /\(line (\d+) column \d+\)$/.exec(String(error))?.[1]
    return { problems: [`${line === undefined ? '' : `line ${line}: `}is not valid JSON`] }
  }
  // Valid JSON that starts with a brace is an object.
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

// Values that many apps are given and that are no secret; masking them would blank them out of every later log line.
const ordinary: readonly string[] = ['production', 'development', 'building', 'canceled', 'superseded']

/**
 * What the runner shall hide of the variables' values, line by line: it hides each line of a text by itself, and a
 * short one, such as the brace that opens a JSON value, would ruin the log. Only what is longer than 7 characters
 * counts, and nothing that is part of a `spared` text, because outputs with a hidden part do not reach other jobs.
 */
export function secretsIn(variables: Variables, spared: readonly string[]): readonly string[] {
  const lines = Object.values(variables).flatMap((value) => value.split(/[\r\n]+/).map((line) => line.trim()))
  const secrets = lines.filter((line) => {
    return line.length > 7 && !ordinary.includes(line) && !spared.some((text) => text.includes(line))
  })
  return [...new Set(secrets)]
}
