import { z } from 'zod'
import { hasInvisible } from './invisible.ts'

/** A timestamp in RFC 3339, UTC, with milliseconds. */
export const timestamp = z.iso.datetime({ precision: 3 })

/** Matches text without control characters (Unicode category Cc). */
export const printable = /^\P{Cc}*$/u

/** 1 to 100 characters of well-formed Unicode, trimmed, without control characters and invisible characters. */
export const name = z
  .string({ error: (issue) => (issue.input === undefined ? 'is required' : 'must be a string') })
  // First, because the other rules look at every character.
  .max(1000, { error: 'must be at most 100 characters', abort: true })
  .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')
  .refine((value) => printable.test(value), 'must not contain control characters')
  .transform((value) => value.trim())
  .refine((value) => value.length > 0, 'must not be empty')
  .refine((value) => !hasInvisible(value), 'must not contain characters that nobody sees or that change its direction')
  .refine((value) => [...value].length <= 100, 'must be at most 100 characters')
  .meta({ minLength: 1, maxLength: 100 })

/** A lower-case slug such as `eu-west-1`. */
export const slug = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be lower-case letters, digits and hyphens, at most 63')

/** The messages for a required field that is missing or has another type. */
export const required = (type: string) => ({
  error: (issue: { input?: unknown }) => (issue.input === undefined ? 'is required' : `must be ${type}`),
})

/** A lower-case slug for addresses: letters, digits and single hyphens, at most 40. */
export function slugOf(name: string): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}/gu, '')
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replace(/^-+|-+$/g, '')
  return slug === '' ? 'app' : slug
}
