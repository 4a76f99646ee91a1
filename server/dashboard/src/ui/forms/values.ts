import { ApiError } from '@fairlead/server/client'

/** Returns the trimmed text of a control; the empty string when the form has no such control. */
export function textOf(values: FormData, name: string): string {
  return secretOf(values, name).trim()
}

/** Returns the text of a control exactly as typed, for passwords. */
export function secretOf(values: FormData, name: string): string {
  const value = values.get(name)
  return typeof value === 'string' ? value : ''
}

/** Returns the trimmed texts of the sent controls: controls with saved values only if changed. */
export function sentTexts<Name extends string>(
  values: FormData,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const sent = names.filter((name) => values.has(name)).map((name) => [name, textOf(values, name)] as const)
  return Object.fromEntries(sent) as Partial<Record<Name, string>>
}

/**
 * Returns the whole number of each sent control, `null` for an empty control. Throws an `ApiError` with the problem of
 * each control that has other text.
 */
export function sentNumbers(values: FormData, names: readonly string[]): ReadonlyMap<string, number | null> {
  const sent = names.filter((name) => values.has(name)).map((name) => [name, secretOf(values, name)] as const)
  const problems = sent
    .filter(([, text]) => !/^(?:0|[1-9][0-9]*)?$/.test(text))
    .map(([field, text]) => ({ field, message: `“${text}” is not a whole number. Write digits only, such as 2.` }))
  if (problems.length > 0) throw fieldProblems(problems)
  return new Map(sent.map(([name, text]) => [name, text === '' ? null : Number(text)]))
}

/** Returns an error that a form shows at the control of this name. */
export const fieldProblem = (field: string, message: string): ApiError => fieldProblems([{ field, message }])

function fieldProblems(errors: readonly { readonly field: string; readonly message: string }[]): ApiError {
  return new ApiError('invalid_request', errors[0]?.message ?? '', { errors })
}
