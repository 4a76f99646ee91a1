import { z } from 'zod'
import type { Declaration } from './declaration.ts'
import { deviceDeclarations } from './device-login.ts'
import { printable, required, timestamp } from './fields.ts'
import { type DashboardRoute, type DashboardRouteName, dashboardRoutes } from './routes.ts'

type Declared = typeof dashboardDeclarations

type PartOf<Name extends DashboardRouteName, Part extends string> =
  Declared[Name] extends Record<Part, infer Schema extends z.ZodType> ? Schema : z.ZodUndefined

export type DashboardBodyInput<Name extends DashboardRouteName> = z.input<PartOf<Name, 'body'>>
export type DashboardBodyOutput<Name extends DashboardRouteName> = z.output<PartOf<Name, 'body'>>
export type DashboardResponse<Name extends DashboardRouteName> = z.output<PartOf<Name, 'response'>>

export type DashboardOperation = DashboardRoute & Declaration & { readonly name: DashboardRouteName }

const minPasswordLength = 12
const maxPasswordLength = 200

/** Normalised to NFC, so that all keyboards give the same password (NIST SP 800-63B §3.1.1.2). */
const password = z
  .string(required('a string'))
  .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')
  .transform((value) => value.normalize('NFC'))

const newPassword = password
  .refine((value) => [...value].length >= minPasswordLength, `must be at least ${minPasswordLength} characters`)
  .refine((value) => value.length <= maxPasswordLength, `must be at most ${maxPasswordLength} characters`)
  .describe('12 to 200 characters.')

/** A password that is only compared. The limit bounds the time to hash it. */
const givenPassword = password.refine((value) => value.length <= maxPasswordLength, 'is too long')

const email = z
  .string(required('a string'))
  .max(254, 'must be at most 254 characters')
  .refine((value) => printable.test(value), 'must not contain control characters')
  .transform((value) => value.trim().toLowerCase())

const newEmail = email.pipe(z.email('must be an e-mail address'))

const token = z.string(required('a string')).max(100, 'is not a token of a setup link')

const signedIn = z.object({
  user: z.object({ id: z.string(), email: z.string() }),
  account: z.object({ id: z.string(), name: z.string(), plan: z.enum(['free', 'pro', 'enterprise']) }),
  session: z.object({ id: z.string(), created_at: timestamp, expires_at: timestamp }),
})

/** The page stores the secrets where apps on other ports cannot read them. */
const begun = signedIn.extend({
  secret: z
    .string()
    .describe(
      'The second secret of the session, shown once: send it as `X-Fairlead-Session` together with the cookie.',
    ),
  device: z
    .string()
    .describe(
      'Identifies the browser at the next sign-in as one in which the user has signed in before; it gives no access.',
    ),
})

const device = z.string(required('a string')).max(100, 'is not the name of a browser').optional()

export const session = z.object({
  id: z.string(),
  current: z.boolean().describe('True for the session of this request.'),
  address: z.string(),
  user_agent: z.string().nullable(),
  created_at: timestamp,
  last_seen_at: timestamp,
  expires_at: timestamp,
})

const dashboardDeclarations = {
  'setup.check': {
    summary: 'Look at a setup link',
    description: 'The account that the user would belong to; 404 when the link is used, expired or unknown.',
    body: z.object({ token }),
    response: z.object({ account: z.object({ id: z.string(), name: z.string() }), expires_at: timestamp }),
  },
  'setup.complete': {
    summary: 'Create a user by a setup link',
    description: 'Uses up the link, creates the user and signs in.',
    body: z.object({ token, email: newEmail, password: newPassword, device }),
    response: begun,
  },
  'session.create': {
    summary: 'Sign in',
    description:
      'Sets the cookie of a new session, returns its secret, and ends the session that the browser had before. 401 when ' +
      'the address or the password is wrong, without saying which.',
    body: z.object({ email, password: givenPassword, device }),
    response: begun,
  },
  'session.get': {
    summary: 'Read the signed-in user',
    description: 'The user, the account and the session.',
    response: signedIn,
  },
  'session.delete': { summary: 'Sign out', description: 'Ends the session and removes the cookie.' },
  'password.change': {
    summary: 'Change the password',
    description: 'Ends all other sessions of the user.',
    body: z.object({ current_password: givenPassword, new_password: newPassword }),
  },
  'sessions.list': {
    summary: 'List sessions',
    description: 'The sessions of the user, newest first.',
    response: z.object({ sessions: z.array(session) }),
  },
  ...deviceDeclarations,
  'sessions.revoke': { summary: 'End a session', description: 'Ends one session of the user at once.' },
} as const satisfies Record<DashboardRouteName, Declaration>

export const dashboardOperations: readonly DashboardOperation[] = (
  Object.keys(dashboardRoutes) as DashboardRouteName[]
).map((name) => ({ name, ...dashboardRoutes[name], ...dashboardDeclarations[name] }))
