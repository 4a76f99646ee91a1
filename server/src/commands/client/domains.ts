import { setTimeout as sleep } from 'node:timers/promises'
import { domainToASCII } from 'node:url'
import { Command, Option } from 'commander'
import type { ResponseBody } from '../../contract/client.ts'
import { ApiError } from '../../contract/errors.ts'
import { CommandError, wholeNumber } from './command-error.ts'
import type { LocalServer } from './connection.ts'
import { type AppFlags, appCommand, type NamedApp, withNamedApp } from './find-app.ts'
import { printable } from './logs.ts'
import { telling } from './wait.ts'

interface AddFlags extends AppFlags {
  readonly redirect?: boolean
  readonly wait?: boolean
  readonly timeout: number
}

export function domainsCommand(local?: LocalServer): Command {
  const part = (name: string, description: string) => appCommand(name, description, local)
  const ofDomain = (name: string, description: string, work: (found: DomainOfApp) => Promise<void>) =>
    part(name, description)
      .argument('<domain>', 'the name of the domain')
      .action((app: string, domain: string, flags: AppFlags) =>
        withNamedApp(local, flags, app, async (found) => work(await domainNamed(found, domain))),
      )
  return new Command('domains')
    .description('serve an app at your domains')
    .addCommand(
      part('list', 'print the domains of an app, their states and their certificates').action(
        (app: string, flags: AppFlags) => withNamedApp(local, flags, app, list),
      ),
    )
    .addCommand(addCommand(part('add', 'add a domain, and print the DNS records to set'), local))
    .addCommand(ofDomain('check', 'look at the DNS of a domain now, and print what is wrong', check))
    .addCommand(ofDomain('remove', 'remove a domain, whose name is free then', remove))
    .addCommand(ofDomain('primary', 'let the other domains of the app redirect to this domain', makePrimary))
}

const addCommand = (part: Command, local: LocalServer | undefined): Command =>
  part
    .argument('<domain>', 'such as www.example.com, or "*.example.com" for all names directly below it')
    .option('--redirect', 'send its visitors to the primary domain of the app')
    .option('--wait', 'wait until the domain is served, with its certificate')
    .addOption(
      new Option('--timeout <minutes>', 'the longest time to wait').argParser(wholeNumber(1, 1_440)).default(30),
    )
    .addHelpText(
      'after',
      '\nPrints each record as type, name, value and purpose, between tabs.\n' +
        'With --wait it exits with 0 when the domain is served, and with 1 when it is not in time.',
    )
    .action((app: string, name: string, flags: AddFlags) =>
      withNamedApp(local, flags, app, (found) => add(found, name, flags)),
    )

async function list({ connection, params }: NamedApp): Promise<void> {
  for await (const { domains } of connection.client.domains.list.pages({ params })) {
    for (const domain of domains) {
      const { name, status, problems } = domain
      const wrong = problems.length === 0 ? '' : problems.map(({ code }) => code).join(', ')
      process.stdout.write(`${printable([name, status, roleOf(domain), certificateOf(domain), wrong].join('\t'))}\n`)
    }
  }
}

function roleOf({ primary, redirect }: Domain): string {
  if (primary) return 'primary'
  return redirect ? 'redirects' : 'serves'
}

function certificateOf({ certificate }: Domain): string {
  if (certificate === null) return 'no certificate'
  const { status, expires_at } = certificate
  return expires_at === null ? `certificate ${status}` : `certificate ${status} until ${expires_at}`
}

async function add(app: NamedApp, name: string, { redirect = false, wait, timeout }: AddFlags): Promise<void> {
  const { connection, params } = app
  const domain = await connection.client.domains.create({ params, body: { name, redirect } })
  for (const record of domain.records) {
    const { type, name: at, value, purpose } = record
    process.stdout.write(`${printable([type, at, value, purpose].join('\t'))}\n`)
  }
  const next = wait ? 'The domain is served as soon as they are found.' : `Then: ${checkAgain(app, domain)}`
  process.stderr.write(`${printable(`Set these records where the DNS of ${domain.name} is managed. ${next}`)}\n`)
  if (!wait) return
  const served = await telling('waiting for the domain', () => untilServed({ ...app, domain }, timeout * 60_000))
  if (served === undefined) {
    throw new CommandError(
      `${domain.name} is not served after ${timeout} min. The server goes on looking: ${checkAgain(app, domain)}`,
    )
  }
  reportServed(served)
}

const checkAgain = ({ name }: Pick<NamedApp, 'name'>, domain: Domain): string =>
  `fairlead domains check ${name} ${domain.name.startsWith('*') ? `"${domain.name}"` : domain.name}`

const reportServed = ({ url }: Domain): void => {
  process.stderr.write('The domain is served at:\n')
  process.stdout.write(`${printable(url)}\n`)
}

async function check({ connection, params, domain }: DomainOfApp): Promise<void> {
  const checked = await connection.client.domains.check({ params: { ...params, id: domain.id } })
  writeProblems(checked)
  if (checked.problems.length === 0) process.stderr.write('No problem was found.\n')
  if (checked.problems.some(({ severity }) => severity === 'error') || !isServed(checked)) process.exitCode = 1
  if (isServed(checked)) return reportServed(checked)
  const wait =
    checked.status === 'pending'
      ? 'It is not served yet.'
      : 'Its certificate is not there yet; `fairlead certificates list` tells why.'
  process.stderr.write(`${wait}\n`)
}

async function remove({ connection, params, domain }: DomainOfApp): Promise<void> {
  await connection.client.domains.delete({ params: { ...params, id: domain.id } })
  process.stderr.write('It is not served any more. Remove its DNS records, too.\n')
}

async function makePrimary({ connection, params, domain }: DomainOfApp): Promise<void> {
  const { name } = await connection.client.domains.update({
    params: { ...params, id: domain.id },
    body: { primary: true },
  })
  process.stderr.write(`${printable(name)} is the primary domain.\n`)
}

export type Domain = ResponseBody<'domains.get'>

export interface DomainOfApp extends NamedApp {
  readonly domain: Domain
}

/** The time between two checks, long enough to stay below the limit on checks of a name. */
const checkEveryMs = 15_000
const readEveryMs = 3_000

/** Finds a domain of an app by its Unicode or DNS name. Throws a `CommandError` when there is none. */
export async function domainNamed(app: NamedApp, text: string): Promise<DomainOfApp> {
  const written = text.toLowerCase().replace(/\.$/, '')
  // Only the part after `*.` is a host name.
  const [, star = '', rest = ''] = /^(\*\.)?(.*)$/.exec(written) ?? []
  const name = star + domainToASCII(rest)
  const { connection, params } = app
  for await (const { domains } of connection.client.domains.list.pages({ params })) {
    const domain = domains.find((each) => each.name === name || each.unicode_name === written)
    if (domain !== undefined) return { ...app, domain }
  }
  throw new CommandError(`The app has no domain ${text}.`)
}

/** True when visitors reach the app: the DNS is right, and no certificate is pending. */
export const isServed = ({ status, certificate }: Domain): boolean =>
  status !== 'pending' && certificate?.status !== 'pending'

/**
 * Waits until a domain is served, and prints its problems when they change. Resolves to undefined after `deadlineMs`. A
 * silent server is asked again.
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
    // The certificate follows the DNS check, so the first answer may not have it yet.
    if (read !== undefined && isServed(read) && (read.certificate !== null || wasServed)) return read
    wasServed = read !== undefined && isServed(read)
    const found = JSON.stringify(read?.problems ?? [])
    if (read !== undefined && found !== written) writeProblems(read)
    written = read === undefined ? written : found
    await sleep(Math.max(0, Math.min(readEveryMs, until - performance.now())))
  }
  return undefined
}

/** Throws a final error, such as a revoked key. Ignores errors that may pass. */
function orLater(error: unknown): undefined {
  const isForGood = error instanceof ApiError && error.status < 500 && !('retry_after' in error.details)
  if (isForGood) throw error
}

export function writeProblems({ problems }: Domain): void {
  for (const { severity, message } of problems) process.stderr.write(`${severity}: ${printable(message)}\n`)
}
