import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { Command } from 'commander'
import type { z } from 'zod'
import { createClient } from '../../contract/client.ts'
import { readError, readJson } from '../../contract/client-requests.ts'
import { type DeviceReason, deviceCodeAnswer, deviceReasons, deviceTokenAnswer } from '../../contract/device-login.ts'
import type { ApiError } from '../../contract/errors.ts'
import { type ClientConfig, readAddress, readClientConfig } from '../../platform/config/client.ts'
import { CommandError } from './command-error.ts'
import { type LocalServer, storeLogin, withLocalOption } from './connection.ts'
import { explain } from './errors.ts'
import { textOfInput } from './input.ts'
import { printable } from './logs.ts'
import { openBrowser } from './open.ts'

/** `fairlead login [URL]`: stores the address and a key of a server for other commands of this user. */
export function loginCommand(local?: LocalServer): Command {
  const command = new Command('login')
    .description('keep the address and an API key of a server for deploy, logs, open, env and api')
    .argument(
      local === undefined ? '<url>' : '[url]',
      `the address of the server${local === undefined ? '' : '; without it, a server that runs on this machine'}`,
    )
    .addHelpText(
      'after',
      '\nAt a terminal, you approve the login in the dashboard. A key on standard input is taken as it is:\n' +
        '  fairlead login https://fairlead.example.com < file-with-the-key\n' +
        'The key is kept in ~/.config/fairlead, where only you can read it.',
    )
  return withLocalOption(command, local).action(
    async (url: string | undefined, { dataDir }: { readonly dataDir?: string }) => {
      const config = url === undefined ? await logInLocally(local, dataDir) : await logIn(url)
      await createClient(config)
        .account.get()
        .catch((error: unknown) => {
          throw explain(error, config)
        })
      process.stdout.write(`Logged in to ${config.baseUrl.replace(/\/v1$/, '')}; kept in ${await storeLogin(config)}\n`)
    },
  )
}

async function logInLocally(local: LocalServer | undefined, dataDir: string | undefined): Promise<ClientConfig> {
  // The caller stores the key after a trial.
  const login = { kept: async () => undefined, keep: async () => undefined }
  const found = await local?.logIn({ dataDir, hasDataDirectory: false, ...login })
  if (found !== undefined) return found
  throw new CommandError('no server of this machine is found. Give its address, or --data-dir with its data directory.')
}

async function logIn(url: string): Promise<ClientConfig> {
  const baseUrl = readAddress(url)
  const key = process.stdin.isTTY
    ? ''
    : (await textOfInput('a key (with < /dev/null, you approve the login in the dashboard)')).trim()
  if (key !== '') return readClientConfig(url, key)
  const apiKey = await keyByApproval(baseUrl).catch((error: unknown) => {
    throw explain(error, { baseUrl })
  })
  return { baseUrl, apiKey }
}

const requestMs = 30_000
/** Seconds to add to the interval after `slow_down` (RFC 8628 §3.5). */
const slowDown = 5

/**
 * Lets a person approve this machine in the dashboard. Resolves to the new key.
 *
 * @param pause waits for a number of milliseconds
 */
export async function keyByApproval(baseUrl: string, pause: (ms: number) => Promise<unknown> = sleep): Promise<string> {
  const begun = await begin(baseUrl)
  const page = printable(begun.verification_uri_complete)
  const minutes = Math.ceil(begun.expires_in / 60)
  process.stderr.write(
    `Open this page in a browser, sign in, and approve the login if it shows the code ${printable(begun.user_code)}:\n` +
      `  ${page}\n` +
      `Waiting, for at most ${minutes} min …\n`,
  )
  if (process.stdin.isTTY && /^https?:\/\//.test(page)) await openBrowser(page)
  const until = performance.now() + begun.expires_in * 1000
  let { interval } = begun
  let isAnswerLost = false
  while (performance.now() < until) {
    await pause(interval * 1000)
    const outcome = await ask(baseUrl, begun.device_code)
    if (typeof outcome === 'object') return outcome.api_key
    if (outcome === 'access_denied') throw new CommandError('the login was refused in the dashboard.')
    // The server returns a key only once.
    if (outcome === 'expired_token' && isAnswerLost) throw lostKey()
    if (outcome === 'expired_token') break
    if (outcome === 'no answer') isAnswerLost = true
    if (outcome === 'no answer' || outcome === 'slow_down') interval += slowDown
  }
  throw new CommandError('nobody approved the login in time. Run fairlead login again.')
}

const lostKey = (): CommandError =>
  new CommandError(
    `an answer of the server was lost. If the login was approved, its key was in that answer: revoke "fairlead login on ${machineName()}" in the ` +
      'dashboard, and run fairlead login again.',
  )

const machineName = (): string => printable(hostname()).slice(0, 100) || 'a machine'

async function begin(baseUrl: string): Promise<z.output<typeof deviceCodeAnswer>> {
  const response = await post(baseUrl, '/device/code', { name: machineName() })
  const text = await response.text()
  if (response.ok) return parse(deviceCodeAnswer, readJson(text, response))
  throw readError(response, text)
}

/** Polls once. Missing or incomplete answers and server errors give `no answer`, after which the caller polls again. */
async function ask(
  baseUrl: string,
  device_code: string,
): Promise<z.output<typeof deviceTokenAnswer> | DeviceReason | 'no answer'> {
  const answered = await post(baseUrl, '/device/token', { device_code })
    .then(async (response) => ({ response, text: await response.text() }))
    .catch(() => undefined)
  if (answered === undefined) return 'no answer'
  const { response, text } = answered
  if (response.ok) return parse(deviceTokenAnswer, readJson(text, response))
  const error = readError(response, text)
  const reason = reasonOf(error)
  if (reason !== undefined) return reason
  if (error.status >= 500) return 'no answer'
  if (error.status === 429) return 'slow_down'
  throw error
}

function reasonOf({ details }: ApiError): DeviceReason | undefined {
  const { reason } = details as { readonly reason?: unknown }
  return deviceReasons.find((known) => known === reason)
}

function parse<Schema extends z.ZodType>(schema: Schema, answer: unknown): z.output<Schema> {
  const parsed = schema.safeParse(answer)
  if (parsed.success) return parsed.data
  throw new CommandError(
    'the server answered with something else than a code. Is this the address of a Fairlead server?',
  )
}

const post = (baseUrl: string, path: string, body: object): Promise<Response> =>
  fetch(baseUrl.replace(/\/v1$/, path), {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify(body),
    redirect: 'error',
    signal: AbortSignal.timeout(requestMs),
  })
