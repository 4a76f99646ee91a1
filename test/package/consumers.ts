/** Uses every entry of both packages, as an ECMAScript module or as CommonJS. */
export const uses = `
import { createReceiver, type EventOf, type Receiver, ReceiverError } from '@fairlead/receiver'
import { postWebhook, signWebhook } from '@fairlead/receiver/testing'
import { ApiError, createClient } from '@fairlead/server/client'
import { createDashboardClient } from '@fairlead/server/dashboard-client'
import { parseDotenv } from '@fairlead/server/dotenv'

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const receiver: Receiver = createReceiver({ secrets: [secret] })
receiver.on('deployment.succeeded', (event: EventOf<'deployment.succeeded'>) => void event.data.url.length)
// @ts-expect-error: a typo
receiver.on('deployment.suceeded', () => {})
const webhook = signWebhook({ event: 'ping', data: { webhook_id: 'wh_1' }, secret })
export const answer = postWebhook({ fetch: receiver.handle }, '/hooks', webhook)
export const listened = () => postWebhook((_: { url: string }, response: { end(): void }) => response.end(), '/', webhook)
export const codeOf = (error: unknown): string | null =>
  error instanceof ReceiverError ? error.code : error instanceof ApiError ? error.code : null
export const projects = () => createClient({ baseUrl: 'http://localhost/v1', apiKey: 'fl_' }).projects.list()
export const setup = () => createDashboardClient({ baseUrl: '/dashboard/api' })
export const variables = parseDotenv
`

/** Compiles only if the entries for CommonJS have all values of those for ECMAScript modules. */
export const sameValues = `
import type * as receiver from '@fairlead/receiver' with { 'resolution-mode': 'import' }
import type * as testing from '@fairlead/receiver/testing' with { 'resolution-mode': 'import' }
import type * as client from '@fairlead/server/client' with { 'resolution-mode': 'import' }
import type * as dashboardClient from '@fairlead/server/dashboard-client' with { 'resolution-mode': 'import' }
import type * as dotenv from '@fairlead/server/dotenv' with { 'resolution-mode': 'import' }
import required = require('@fairlead/receiver')
import requiredTesting = require('@fairlead/receiver/testing')
import requiredClient = require('@fairlead/server/client')
import requiredDashboardClient = require('@fairlead/server/dashboard-client')
import requiredDotenv = require('@fairlead/server/dotenv')

const a: typeof receiver = required
const b: typeof testing = requiredTesting
const c: typeof client = requiredClient
const d: typeof dashboardClient = requiredDashboardClient
const e: typeof dotenv = requiredDotenv
export const all = [a, b, c, d, e]
`

/** Fails when `require` and `import` give different modules. */
export const loads = `
const { strict: assert } = require('node:assert')
const { createReceiver } = require('@fairlead/receiver')
const { postWebhook, signWebhook } = require('@fairlead/receiver/testing')
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const receiver = createReceiver({ secrets: [secret] })
receiver.on('ping', () => {})
const webhook = signWebhook({ event: 'ping', data: { webhook_id: 'wh_1' }, secret })
void (async () => {
  for (const name of ['@fairlead/receiver', '@fairlead/receiver/testing', ...process.argv.slice(2)])
    assert.equal(require(name), await import(name))
  console.log((await postWebhook({ fetch: receiver.handle }, '/hooks', webhook)).body.outcome)
})()
`
