import { setTimeout as sleep } from 'node:timers/promises'
import { domainToASCII } from 'node:url'
import type { ResponseBody } from '../../../contract/client.ts'
import { ApiError } from '../../../contract/errors.ts'
import { CommandError } from '../command-error.ts'
import { printable } from '../follow.ts'
import type { NamedApp } from './command.ts'

export type Domain = ResponseBody<'domains.get'>

export interface DomainOfApp extends NamedApp {
  readonly domain: Domain
}

/** Few enough for the limit of checks of a name. */
const checkEveryMs = 15_000
const readEveryMs = 3_000

/** Finds a domain of an app by its name, as people or DNS write it. Throws a `CommandError` when there is none. */
export async function domainNamed(app: NamedApp, text: string): Promise<DomainOfApp> {
  const written = text.toLowerCase().replace(/\.$/, '')
  // A wildcard is no host name, of which it has the rest.
  const [, star = '', rest = ''] = /^(\*\.)?(.*)$/.exec(written) ?? []
  const name = star + domainToASCII(rest)
  const { connection, params } = app
  for await (const { domains } of connection.client.domains.list.pages({ params })) {
    const domain = domains.find((each) => each.name === name || each.unicode_name === written)
    if (domain !== undefined) return { ...app, domain }
  }
  throw new CommandError(`The app has no domain ${text}.`)
}

/** True when visitors get the app at the domain: its DNS was found right, and a certificate that it waits for is there. */
export const isServed = ({ status, certificate }: Domain): boolean =>
  status !== 'pending' && certificate?.status !== 'pending'

/**
 * Waits until a domain is served, and prints its problems whenever they change. Resolves to undefined when it is not after
 * `deadlineMs`. A server that does not answer for a while is asked again.
 */
export async function untilServed(
  { connection, params, domain }: DomainOfApp,
  deadlineMs: number,
): Promise<Domain | undefined> {
  const { client } = connection
  const at = { params: { ...params, id: domain.id } }
  const until = performance.now() + deadlineMs
  let checkAt = 0
  let written = ''
  let wasServed = false
  while (performance.now() < until) {
    const isDue = performance.now() >= checkAt
    if (isDue) checkAt = performance.now() + checkEveryMs
    const read = await (isDue ? client.domains.check(at) : client.domains.get(at)).catch(orLater)
    // A certificate is asked for after the DNS was found right: until it is known, it is as if there were none.
    if (read !== undefined && isServed(read) && (read.certificate !== null || wasServed)) return read
    wasServed = read !== undefined && isServed(read)
    const found = JSON.stringify(read?.problems ?? [])
    if (read !== undefined && found !== written) writeProblems(read)
    written = read === undefined ? written : found
    await sleep(Math.max(0, Math.min(readEveryMs, until - performance.now())))
  }
  return undefined
}

/** A domain that was removed meanwhile, or a key that was revoked, does not come back. */
function orLater(error: unknown): undefined {
  const isForGood = error instanceof ApiError && error.status < 500 && !('retry_after' in error.details)
  if (isForGood) throw error
}

export function writeProblems({ problems }: Domain): void {
  for (const { severity, message } of problems) process.stderr.write(`${severity}: ${printable(message)}\n`)
}
