import { ApiError } from '@fairlead/server/client'
import { createContext, useContext } from 'react'

/** The error with which the server rejected a form, for its fields. */
export const FormErrorContext = createContext<unknown>(null)

/** Returns a function that gives the error message of a field by its path; `undefined` when the field has none. */
export function useFieldErrors(): (field: string | undefined) => string | undefined {
  const error = useContext(FormErrorContext)
  if (!(error instanceof ApiError)) return () => undefined
  return (field) => error.details.errors?.find((each) => each.field === field)?.message
}
