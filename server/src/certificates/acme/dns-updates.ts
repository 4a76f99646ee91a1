import type { DnsUpdates } from '../../platform/config/edge.ts'
import { AttemptError } from './attempt-error.ts'
import { plain } from './problem.ts'
import { type ProgramResult, runProgram } from './run-program.ts'

/** A TXT record that proves a name. */
export interface TxtRecord {
  /** In lower case, without a dot at its end. */
  readonly name: string
  readonly value: string
}

/** Sets and removes TXT records. Both reject with `AttemptError`, and both may be repeated. */
export interface ChangeDns {
  add(record: TxtRecord, signal: AbortSignal): Promise<void>
  remove(record: TxtRecord, signal: AbortSignal): Promise<void>
}

/** Seconds for which others keep a record. */
const ttl = 60
const updateTimeoutMs = 30_000
/** Programs of operators may wait for their provider. */
const commandTimeoutMs = 120_000

const label = '[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?'
const validName = new RegExp(`^${label}(\\.${label})+$`)

/**
 * Returns the way to change DNS that the configuration names.
 *
 * @param path the `PATH` on which programs are found
 */
export function createDnsUpdates(updates: DnsUpdates, path: string): ChangeDns {
  const change = updates.kind === 'nsupdate' ? byNsupdate(updates, path) : byCommand(updates, path)
  return {
    add: (record, signal) => change('add', checked(record), signal),
    remove: (record, signal) => change('remove', checked(record), signal),
  }
}

type Change = (action: 'add' | 'remove', record: TxtRecord, signal: AbortSignal) => Promise<void>

/** Throws unless name and value are plain: they become lines for `nsupdate` and arguments of programs. */
function checked(record: TxtRecord): TxtRecord {
  if (record.name.length > 253 || !validName.test(record.name) || !/^[A-Za-z0-9_-]{1,255}$/.test(record.value)) {
    throw new AttemptError('dns_update_failed', 'The name or the value of the TXT record is not valid.')
  }
  return record
}

/** Dynamic updates (RFC 2136), signed by TSIG (RFC 8945). The zone is the one that the server has for the name. */
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
    ? `${program} is not there${program === 'nsupdate' ? ' (Debian: apt install bind9-dnsutils)' : ''}.`
    : `${what} ${how}${said === '' ? '.' : `: ${said}`}`
  const toTenants =
    'The server could not change its DNS. Its operator finds the reason in the log. The server tries again automatically.'
  return new AttemptError('dns_update_failed', message, { toTenants })
}
