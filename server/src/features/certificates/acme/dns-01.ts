import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { sleepUntilAborted } from '../../../platform/abort.ts'
import type { DnsUpdates } from '../../../platform/config/edge.ts'
import type { Database } from '../../../platform/database.ts'
import type { Resolver } from '../../../platform/dns/resolver.ts'
import { DnsError } from '../../../platform/dns/transport.ts'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import type { Logger } from '../../../platform/logger.ts'
import { startProcess } from '../../../platform/processes/spawn.ts'
import { tablesOf } from '../tables.ts'
import type { ChallengeKind } from './acme.ts'
import { AttemptError, plain } from './errors.ts'

export interface Dns01Dependencies {
  readonly database: Database
  readonly updates: ChangeDns
  readonly resolver: Resolver
  /** The server changes DNS only in the zone of this domain, which belongs to it. */
  readonly domain: string
  readonly logger: Pick<Logger, 'warn'>
}

/** The proof by a TXT record (RFC 8555, section 8.4). It also removes records that an earlier server has left. */
export interface Dns01 extends ChallengeKind {
  /** Removes all remaining records. Never rejects: a record that cannot be removed now is removed later. */
  removeLeftovers(signal: AbortSignal): Promise<void>
}

/** The time until all name servers of a zone have a record. An operator's program may have to wait for its provider. */
const visibleWithinMs = 150_000
const lookEveryMs = 2_000
const removalTimeoutMs = 60_000
const lastRemovalMs = 5_000

/** Owners of domains must not see the addresses of name servers, which may be the operator's. */
const toTenants =
  'The server has set its TXT record, which not all name servers have yet. Its operator finds them in the log. The server tries again ' +
  'automatically.'

const proofName = (name: string): string => `_acme-challenge.${name}`

/**
 * Returns a name below the server's own domain. `_acme-challenge.<name>` of an app's domain must point to it by a CNAME
 * record, so that the server can prove the name without write access to the owner's DNS.
 *
 * @param domain the server's own domain
 */
export function challengeTarget(name: string, domain: string): string {
  const of = createHash('sha256').update(name.replace(/^\*\./, '')).digest('hex').slice(0, 32)
  return `${of}.${proofName(domain)}`
}

export function createDns01(dependencies: Dns01Dependencies): Dns01 {
  const { database, updates, resolver, domain, logger } = dependencies
  const inUse = new Map<string, TxtRecord>()
  const keyOf = ({ name, value }: TxtRecord) => `${name} ${value}`
  const isUsed = (record: TxtRecord) => [...inUse.values()].some((each) => keyOf(each) === keyOf(record))
  const oneAtATime = createKeyedLock()

  // A resumed order uses the same record as the previous attempt, whose removal may still be running.
  const add = (record: TxtRecord, signal: AbortSignal): Promise<void> =>
    oneAtATime(keyOf(record), async () => {
      await remember(database, record)
      await updates.add(record, signal)
    })
  const remove = (record: TxtRecord, signal: AbortSignal): Promise<void> =>
    oneAtATime(keyOf(record), async () => {
      if (isUsed(record)) return
      try {
        await updates.remove(record, signal)
        await forget(database, record)
      } catch (error) {
        logger.warn({ err: error, name: record.name }, 'a TXT record could not be removed from DNS yet')
      }
    })

  return {
    type: 'dns-01',
    async prepare({ name, token, value }, signal) {
      const record = { name: await recordNameOf(resolver, name, domain, signal), value }
      inUse.set(token, record)
      await add(record, signal)
      await untilVisible(resolver, record, signal)
    },
    async clean({ token }, signal) {
      const record = inUse.get(token)
      inUse.delete(token)
      // A stopping server does not wait long: the next server removes the record as well.
      const timeoutMs = signal.aborted ? lastRemovalMs : removalTimeoutMs
      if (record !== undefined) await remove(record, AbortSignal.timeout(timeoutMs))
    },
    async removeLeftovers(signal) {
      for (const record of await tablesOf(database).selectFrom('acme_records').select(['name', 'value']).execute()) {
        if (!signal.aborted) await remove(record, signal)
      }
    },
  }
}

async function remember(database: Database, record: TxtRecord): Promise<void> {
  await tablesOf(database)
    .insertInto('acme_records')
    .values(record)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

async function forget(database: Database, { name, value }: TxtRecord): Promise<void> {
  await tablesOf(database).deleteFrom('acme_records').where('name', '=', name).where('value', '=', value).execute()
}

/**
 * Returns the name of the record. `_acme-challenge` of the operator's own domain may be an alias of any name.
 * `_acme-challenge` of a tenant's domain must be an alias of its `challengeTarget`, so that tenants cannot have other
 * records of the operator changed.
 */
async function recordNameOf(resolver: Resolver, name: string, domain: string, signal: AbortSignal): Promise<string> {
  const own = proofName(name)
  const { names } = await resolver.resolve(own, 'TXT', signal)
  if (name === domain) return names.at(-1) ?? own
  const target = challengeTarget(name, domain)
  if (names.slice(1).includes(target)) return target
  throw new AttemptError(
    'dns_not_delegated',
    `The certificate of a wildcard needs a CNAME record: ${own} must be an alias of ${target}.`,
  )
}

/** Resolves when all answering servers of the zone have the record, because the authority may ask any of them. */
async function untilVisible(resolver: Resolver, record: TxtRecord, signal: AbortSignal): Promise<void> {
  const end = performance.now() + visibleWithinMs
  let missing = 'no server of its zone answers'
  while (performance.now() < end) {
    const found = await lookAt(resolver, record, signal)
    if (found === null) return
    missing = found
    await sleepUntilAborted(lookEveryMs, signal)
    signal.throwIfAborted()
  }
  throw new AttemptError(
    'dns_not_visible',
    `The TXT record ${record.name} was set, but is not in DNS after ${visibleWithinMs / 1000} seconds: ${missing}.`,
    { toTenants },
  )
}

/** Returns null when the record is visible; otherwise the reason. */
async function lookAt(resolver: Resolver, record: TxtRecord, signal: AbortSignal): Promise<string | null> {
  const zone = await resolver.zoneOf(record.name, signal)
  const addresses = zone?.servers.flatMap((server) => server.addresses) ?? []
  const looks = await Promise.all(addresses.map((address) => hasRecord(resolver, address, record, signal)))
  const without = addresses.filter((_, index) => looks[index] === false)
  if (without.length > 0) return `${without.join(', ')} does not have it`
  if (looks.includes(true)) return null
  // When no server of the zone answers us, the resolver is asked.
  const { records } = await resolver.resolve(record.name, 'TXT', signal)
  return has(records, record) ? null : 'no server of its zone has it'
}

/** Returns null for a server that does not answer. */
async function hasRecord(
  resolver: Resolver,
  address: string,
  record: TxtRecord,
  signal: AbortSignal,
): Promise<boolean | null> {
  try {
    const { answers } = await resolver.askAuthority(address, { name: record.name, type: 'TXT' }, signal)
    return has(answers, record)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof DnsError) return null
    throw error
  }
}

type Records = Awaited<ReturnType<Resolver['askAuthority']>>['answers']

const has = (records: Records, { name, value }: TxtRecord): boolean =>
  records.some((each) => each.type === 'TXT' && each.name === name && each.text === value)

interface TxtRecord {
  /** The name of the record in lower case, without the final dot. */
  readonly name: string
  readonly value: string
}

/** Sets and removes TXT records. Both calls reject with `AttemptError` and are idempotent. */
interface ChangeDns {
  add(record: TxtRecord, signal: AbortSignal): Promise<void>
  remove(record: TxtRecord, signal: AbortSignal): Promise<void>
}

/** Resolvers may cache a record for this time, in seconds. */
const ttl = 60
const updateTimeoutMs = 30_000
const commandTimeoutMs = 120_000

const label = '[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?'
const validName = new RegExp(`^${label}(\\.${label})+$`)

/** Returns the configured way to change DNS. `path` is the `PATH` on which programs are searched. */
export function createDnsUpdates(updates: DnsUpdates, path: string): ChangeDns {
  const change = updates.kind === 'nsupdate' ? byNsupdate(updates, path) : byCommand(updates, path)
  return {
    add: (record, signal) => change('add', checked(record), signal),
    remove: (record, signal) => change('remove', checked(record), signal),
  }
}

type Change = (action: 'add' | 'remove', record: TxtRecord, signal: AbortSignal) => Promise<void>

/** Throws unless name and value are safe as lines for `nsupdate` and as arguments of programs. */
function checked(record: TxtRecord): TxtRecord {
  if (record.name.length > 253 || !validName.test(record.name) || !/^[A-Za-z0-9_-]{1,255}$/.test(record.value)) {
    throw new AttemptError('dns_update_failed', 'The name or the value of the TXT record is not valid.')
  }
  return record
}

/** Dynamic updates (RFC 2136), signed by TSIG (RFC 8945). `nsupdate` asks the server for the zone of the name. */
function byNsupdate({ server, port, keyFile }: DnsUpdates & { kind: 'nsupdate' }, path: string): Change {
  if (!/^[A-Za-z0-9.:-]+$/.test(server))
    throw new Error('the server for updates of DNS is not a host name or an address')
  return async (action, { name, value }, signal) => {
    const update = action === 'add' ? `add ${name}. ${ttl} IN TXT "${value}"` : `delete ${name}. IN TXT "${value}"`
    const input = `server ${server} ${port}\nupdate ${update}\nsend\n`
    const args = ['-v', '-k', keyFile]
    const result = await runProgram('nsupdate', { args, input, path, timeoutMs: updateTimeoutMs, signal })
    if (result.status !== 0) throw failed(`nsupdate, for ${name} at ${server},`, 'nsupdate', result)
  }
}

function byCommand({ program }: DnsUpdates & { kind: 'command' }, path: string): Change {
  return async (action, { name, value }, signal) => {
    const args = [action, name, value]
    const result = await runProgram(program, { args, path, timeoutMs: commandTimeoutMs, signal })
    if (result.status !== 0) throw failed(`FAIRLEAD_DNS_UPDATE_COMMAND (${action} ${name})`, program, result)
  }
}

function failed(what: string, program: string, { status, output }: ProgramResult): AttemptError {
  const how = status === null ? 'did not run to its end' : `ended with the status ${status}`
  const said = plain(output)
  const isMissing = status === null && /ENOENT/.test(said)
  const message = isMissing
    ? `${program} was not found${program === 'nsupdate' ? ' (Debian: apt install bind9-dnsutils)' : ''}.`
    : `${what} ${how}${said === '' ? '.' : `: ${said}`}`
  const toTenants =
    'The server could not change its DNS. Its operator finds the reason in the log. The server tries again automatically.'
  return new AttemptError('dns_update_failed', message, { toTenants })
}

export interface ProgramRun {
  readonly args: readonly string[]
  /** Written to its standard input, which is then closed. */
  readonly input?: string
  /** The `PATH` of the program. Its only other variable is `LC_ALL`. */
  readonly path: string
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

interface ProgramResult {
  /** The exit status; null when the program was killed or could not be started. */
  readonly status: number | null
  readonly output: string
}

const mostOutput = 2_000

/** Runs a program to its end, or kills it when it takes too long. Rejects when the signal aborts. */
async function runProgram(program: string, run: ProgramRun): Promise<ProgramResult> {
  run.signal.throwIfAborted()
  const child = startProcess(program, run.args, {
    cwd: '/',
    env: { PATH: run.path, LC_ALL: 'C' },
    stdio: ['pipe', 'pipe', 'pipe'],
    signal: AbortSignal.any([run.signal, AbortSignal.timeout(run.timeoutMs)]),
    killSignal: 'SIGKILL',
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-mostOutput)
    })
  }
  // The program may end before it has read all of its input.
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(run.input ?? '')
  try {
    const [status] = (await once(child, 'close')) as [number | null]
    run.signal.throwIfAborted()
    return { status, output }
  } catch (error) {
    run.signal.throwIfAborted()
    return { status: null, output: `${output}\n${(error as Error).message}` }
  }
}
