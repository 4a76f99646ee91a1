import type { EdgeConfig } from '../platform/config/edge.ts'
import type { Config } from '../platform/config.ts'
import type { Finding } from '../platform/finding.ts'
import { listenAndClose } from '../platform/ports.ts'
import { isRunning } from '../platform/processes.ts'
import { findProgram } from '../platform/programs.ts'
import { findCaddy } from './caddy.ts'
import { edgeHome } from './home.ts'
import { findHolder } from './port-holder.ts'
import { portForbidden, portTaken } from './problems.ts'
import { readRecord } from './record.ts'

/** Checks what the edge needs, if a domain is configured. Changes and starts nothing. */
export async function edgeFindings(config: Pick<Config, 'edge' | 'path' | 'dataDirectory'>): Promise<Finding[]> {
  const { edge, path, dataDirectory } = config
  if (edge === null) {
    const cost =
      'set FAIRLEAD_DOMAIN and FAIRLEAD_ACME_EMAIL for HTTPS, or put a proxy with TLS in front of the server.'
    return [{ subject: 'HTTPS', state: 'absent', found: 'no domain is configured', cost }]
  }
  const record = await readRecord(edgeHome(dataDirectory))
  const runs = record !== null && isRunning(record)
  return [
    await caddy(path),
    await port('HTTP port', edge.httpPort, edge, runs),
    await port('HTTPS port', edge.httpsPort, edge, runs),
    ...(edge.dnsUpdates?.kind === 'nsupdate' ? [await nsupdate(path)] : []),
  ]
}

async function caddy(path: string): Promise<Finding> {
  const subject = 'Caddy'
  try {
    const { file, version } = await findCaddy(path)
    return { subject, state: 'ok', found: `${version} (${file})` }
  } catch (error) {
    const cost =
      'there is no HTTPS without it. Run apt-get install caddy, and then systemctl disable --now caddy: the service that the ' +
      'package starts takes port 80, and the server starts Caddy itself.'
    return { subject, state: 'missing', found: (error as Error).message, cost }
  }
}

async function port(subject: string, number: number, edge: EdgeConfig, runs: boolean): Promise<Finding> {
  const error = (await listenAndClose(number, '0.0.0.0')) ?? (await listenAndClose(number, '::'))
  if (error?.code === 'EADDRINUSE') {
    if (runs) return { subject, state: 'ok', found: `${number}: the edge runs` }
    const cost = `there is no HTTPS: ${portTaken(number, edge, await findHolder(number))}.`
    return { subject, state: 'missing', found: `${number} is taken`, cost }
  }
  if (error?.code === 'EACCES') {
    const cost = `there is no HTTPS: ${portForbidden(number, edge)}.`
    return { subject, state: 'missing', found: `${number} may not be listened on`, cost }
  }
  return { subject, state: 'ok', found: `${number} is free` }
}

async function nsupdate(path: string): Promise<Finding> {
  const subject = 'nsupdate'
  const file = await findProgram('nsupdate', path)
  if (file !== null) return { subject, state: 'ok', found: file }
  const cost =
    'records of DNS cannot be set (FAIRLEAD_DNS_UPDATE_SERVER), so that there are no wildcard certificates. Run apt-get install bind9-dnsutils.'
  return { subject, state: 'missing', found: 'not on PATH', cost }
}
