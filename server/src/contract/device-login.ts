import { z } from 'zod'
import type { Declaration } from './declaration.ts'
import { name, required, timestamp } from './fields.ts'
import type { DashboardRouteName } from './routes.ts'

/*
 * A person approves the login of a command in the dashboard, as in RFC 8628. The command uses `POST /device/code` and
 * `POST /device/token`; the page uses routes of the dashboard.
 */

export const deviceCodeRequest = z.object({ name })

/** The answer to `POST /device/code` (RFC 8628 §3.2). Times are in seconds. */
export const deviceCodeAnswer = z.object({
  device_code: z.string(),
  user_code: z.string(),
  verification_uri: z.string(),
  verification_uri_complete: z.string(),
  expires_in: z.number(),
  interval: z.number(),
})

export const deviceTokenRequest = z.object({
  device_code: z.string(required('a string')).max(100, 'is not a device code'),
})

export const deviceTokenAnswer = z.object({ api_key: z.string() })

/** The values of `details.reason` without a key (RFC 8628 §3.5). */
export const deviceReasons = ['authorization_pending', 'slow_down', 'access_denied', 'expired_token'] as const

export type DeviceReason = (typeof deviceReasons)[number]

const given = z.object({ user_code: z.string(required('a string')).max(100, 'is not a code') })

export const deviceDeclarations = {
  'device.check': {
    summary: 'Look at a login that waits for approval',
    description: 'The machine that shows the code; 404 when the code is used, expired or unknown.',
    body: given,
    response: z.object({
      user_code: z.string(),
      name: z.string().describe("The machine's name for itself."),
      address: z.string().describe('The address from which the login began.'),
      preset: z.literal('full').describe('What the key may do.'),
      created_at: timestamp,
      expires_at: timestamp,
    }),
  },
  'device.approve': { summary: 'Approve a login', description: 'The machine gets a key of the account.', body: given },
  'device.deny': { summary: 'Refuse a login', description: 'The machine gets no key.', body: given },
} as const satisfies Record<Extract<DashboardRouteName, `device.${string}`>, Declaration>
