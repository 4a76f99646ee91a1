import { ApiError } from '@fairlead/server/client'
import { createContext, useContext } from 'react'

/** What the server said of the values of a form, for the controls in it. */
export const FormError = createContext<unknown>(null)

/** What it said of a field, by its path. */
export function useProblems(): (field: string | undefined) => string | undefined {
  const error = useContext(FormError)
  if (!(error instanceof ApiError)) return () => undefined
  return (field) => error.details.errors?.find((each) => each.field === field)?.message
}
