import { isIP } from 'node:net'
import { z } from 'zod'
import { blockList } from '../outbound.ts'

/*
 * Each parser reads the text of a variable. An error message is a clause without a subject, because it follows the
 * variable's name.
 */

/** Both ends are included. */
export interface Range {
  readonly from: number
  readonly to: number
}

export const text = z.string().min(1)

export const port = z
  .string()
  .regex(/^\d{1,5}$/, 'must be a port from 0 to 65535')
  .transform(Number)
  .refine((n) => n <= 65535, 'must be a port from 0 to 65535')

/** Reads seconds as milliseconds. */
export const seconds = z
  .string()
  .regex(/^\d+(\.\d+)?$/, 'must be a number of seconds')
  .transform((value) => Math.round(Number(value) * 1000))
  // Node's timers count milliseconds in 31 bits.
  .refine((ms) => ms < 2 ** 31, 'must be less than 24 days')

/** Reads megabytes as bytes. */
export const megabytes = z
  .string()
  .regex(/^\d{1,9}$/, 'must be a whole number of megabytes')
  .transform((value) => Number(value) * 1_000_000)

export const list = z.string().transform((value) =>
  value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== ''),
)

export const absolutePaths = list.pipe(z.array(z.string().startsWith('/', 'must be absolute paths joined by commas')))

export const range = z
  .string()
  .regex(/^\d+-\d+$/, 'must be two numbers joined by a hyphen, such as 20000-29999')
  .transform((value): Range => {
    const [from = 0, to = 0] = value.split('-').map(Number)
    return { from, to }
  })
  .refine(
    ({ from, to }) => from > 0 && from < to && to <= 65535,
    'must run from a lower to a higher number below 65536',
  )

export const networks = list.superRefine((entries, context) => {
  for (const entry of entries) {
    try {
      blockList([entry])
    } catch (error) {
      context.addIssue({ code: 'custom', message: `is wrong: ${(error as Error).message}` })
    }
  }
})

export const slug = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/, 'must be lower-case letters, digits and hyphens')

export const domain = z
  .string()
  .regex(
    /^([a-z0-9]([a-z0-9-]*[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/,
    'must be a domain name in lower case, such as apps.example.com',
  )

export const hostname = z
  .string()
  .refine(
    (value) => isIP(value) !== 0 || domain.safeParse(value).success,
    'must be a host name in lower case or an IP address',
  )

export const origin = z
  .string()
  .refine(
    (value) => URL.canParse(value) && /^https?:$/.test(new URL(value).protocol) && isBare(new URL(value)),
    'must be an address without a path, such as https://fairlead.example.com',
  )
  .transform((value) => new URL(value).origin)

function isBare({ pathname, search, hash, username, password }: URL): boolean {
  return pathname === '/' && `${search}${hash}${username}${password}` === ''
}

export const postgresUrl = z.string().regex(/^postgres(ql)?:\/\//, 'must begin with postgres:// or postgresql://')

/** Reads a JSON object of strings: environment variables for other programs. */
export const jsonVariables = z
  .string()
  .transform((value, context) => {
    try {
      return JSON.parse(value) as unknown
    } catch {
      context.addIssue({ code: 'custom', message: 'must be a JSON object of strings' })
      return z.NEVER
    }
  })
  .pipe(z.record(z.string(), z.string().regex(/^[^\0]*$/), { error: 'must be a JSON object of strings' }))
