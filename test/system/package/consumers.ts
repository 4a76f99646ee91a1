/** Uses every entry of both packages, as an ECMAScript module or as CommonJS. */
export const uses = `
import { createReceiver, type EventOf, type Receiver, ReceiverError } from '@fairlead/receiver'
import { postWebhook, signWebhook } from '@fairlead/receiver/testing'
import { type Client, createClient as createCliClient } from '@fairlead/cli'
import { ApiError, createClient } from '@fairlead/server/client'
import { createDashboardClient } from '@fairlead/server/dashboard-client'
import { parseDotenv } from '@fairlead/server/dotenv'
import { createKeyExchange } from '@fairlead/server/exchange'

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
export const deploy = (client: Client) =>
  client.deployments.create({ params: { project_id: 'proj_1' }, body: { name: 'web', git_url: 'https://example.com/a.git' } })
// @ts-expect-error: a required field is missing
export const incomplete = (client: Client) => client.projects.create({ body: {} })
export const names = async () => (await createCliClient({ baseUrl: 'http://localhost/v1' }).projects.list()).projects.map(({ name }) => name.length)
export const setup = () => createDashboardClient({ baseUrl: '/dashboard/api' })
export const variables = parseDotenv
export const exchange = createKeyExchange
`

/** Compiles only if the CommonJS entries have all values of the ECMAScript entries. */
export const sameValues = `
import type * as cli from '@fairlead/cli' with { 'resolution-mode': 'import' }
import type * as receiver from '@fairlead/receiver' with { 'resolution-mode': 'import' }
import type * as testing from '@fairlead/receiver/testing' with { 'resolution-mode': 'import' }
import type * as client from '@fairlead/server/client' with { 'resolution-mode': 'import' }
import type * as dashboardClient from '@fairlead/server/dashboard-client' with { 'resolution-mode': 'import' }
import type * as dotenv from '@fairlead/server/dotenv' with { 'resolution-mode': 'import' }
import type * as exchange from '@fairlead/server/exchange' with { 'resolution-mode': 'import' }
import required = require('@fairlead/receiver')
import requiredTesting = require('@fairlead/receiver/testing')
import requiredCli = require('@fairlead/cli')
import requiredClient = require('@fairlead/server/client')
import requiredDashboardClient = require('@fairlead/server/dashboard-client')
import requiredDotenv = require('@fairlead/server/dotenv')
import requiredExchange = require('@fairlead/server/exchange')

const a: typeof receiver = required
const b: typeof testing = requiredTesting
const c: typeof client = requiredClient
const d: typeof dashboardClient = requiredDashboardClient
const e: typeof dotenv = requiredDotenv
const f: typeof exchange = requiredExchange
const g: typeof cli = requiredCli
// Both packages have the same client: one's types are made of schemas, the other's are written out.
const h: typeof cli = requiredClient
declare const written: cli.Client
// Only the names of events are known more exactly there.
const i: Omit<client.Client, 'webhooks'> = written
export const all = [a, b, c, d, e, f, g, h, i]
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
