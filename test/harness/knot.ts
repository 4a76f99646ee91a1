import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { query } from '../../server/src/platform/dns/transport.ts'
import { canRun, end, untilAnswered } from './pebble.ts'
import { freePort } from './ports.ts'
import { temporaryDirectory } from './temporary.ts'

/** Knot DNS with the zone of a domain that a TSIG key may change. */
export interface Knot extends AsyncDisposable {
  readonly port: number
  /** The key, as `nsupdate -k` reads it. */
  readonly keyFile: string
  /** A key of the same name that the server rejects. */
  readonly wrongKeyFile: string
  texts(name: string): Promise<string[]>
}

/** Returns why DNS cannot be changed here; null when it can. */
export async function noKnot(): Promise<string | null> {
  if (!(await canRun('knotd', ['--version']))) return 'knotd is missing (Debian: apt install knot)'
  return (await canRun('nsupdate', ['-V'])) ? null : 'nsupdate is missing (Debian: apt install bind9-dnsutils)'
}

/**
 * Starts Knot DNS. All names of the domain lead to this machine.
 *
 * @param records further records of the zone
 */
export async function startKnot(domain: string, records = ''): Promise<Knot> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const port = await freePort()
  const secret = randomBytes(32).toString('base64')
  const keyFile = await writeKey(join(directory.path, 'update.key'), secret)
  const wrongKeyFile = await writeKey(join(directory.path, 'wrong.key'), randomBytes(32).toString('base64'))
  const zones = join(directory.path, 'zones')
  await mkdir(zones)
  await writeFile(join(zones, `${domain}.zone`), zoneOf(domain, records))
  const config = join(directory.path, 'knot.conf')
  await writeFile(config, configOf({ domain, port, secret, zones, directory: directory.path }))
  const child = spawn('knotd', ['-c', config], { stdio: ['ignore', 'ignore', 'inherit'] })
  await once(child, 'spawn')
  cleanup.defer(() => end(child))
  const ask = async (name: string) => {
    const question = { name, type: 'TXT', recursion: false } as const
    return query({ address: '127.0.0.1', port }, question, AbortSignal.timeout(2_000))
  }
  await untilAnswered(async () => {
    if ((await ask(domain)).rcode !== 'NOERROR') throw new Error('the zone is not there yet')
  })
  const owned = cleanup.move()
  return {
    port,
    keyFile,
    wrongKeyFile,
    async texts(name) {
      const { answers } = await ask(name)
      return answers.flatMap((each) => (each.type === 'TXT' ? [each.text] : []))
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const zoneOf = (domain: string, records: string): string => `$ORIGIN ${domain}.
$TTL 5
@ SOA ns1 hostmaster 1 3600 900 604800 5
@ NS ns1
ns1 A 127.0.0.1
@ A 127.0.0.1
* A 127.0.0.1
${records}
`

async function writeKey(file: string, secret: string): Promise<string> {
  await writeFile(file, `key "update" {\n  algorithm hmac-sha256;\n  secret "${secret}";\n};\n`, { mode: 0o600 })
  return file
}

const configOf = (given: {
  readonly domain: string
  readonly port: number
  readonly secret: string
  readonly zones: string
  readonly directory: string
}): string => `server:
  rundir: "${given.directory}"
  listen: 127.0.0.1@${given.port}
database:
  storage: "${given.directory}"
key:
  - id: update
    algorithm: hmac-sha256
    secret: ${given.secret}
acl:
  - id: updates
    key: update
    action: update
template:
  - id: default
    storage: "${given.zones}"
    file: "%s.zone"
    zonefile-sync: -1
    journal-content: none
zone:
  - domain: ${given.domain}
    acl: updates
log:
  - target: stderr
    any: error
`
