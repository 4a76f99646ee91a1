import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { temporaryDirectory } from '../../harness/temporary.ts'

/** A name server for one zone: the records that the README tells an owner to set. */
export interface Zone extends AsyncDisposable {
  /** Such as `192.0.2.1:53`. */
  readonly server: string
}

/** Starts Knot DNS with a domain whose name and all names below it lead to one address. */
export async function startZone(
  domain: string,
  { listen, address }: { readonly listen: string; readonly address: string },
): Promise<Zone> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const zones = join(directory.path, 'zones')
  await mkdir(zones)
  await writeFile(
    join(zones, `${domain}.zone`),
    `$ORIGIN ${domain}.
$TTL 300
@ SOA ns1 hostmaster 1 3600 900 604800 300
@ NS ns1
ns1 A ${listen}
@ A ${address}
* A ${address}
`,
  )
  const file = join(directory.path, 'knot.conf')
  await writeFile(
    file,
    `server:
  rundir: "${directory.path}"
  listen: ${listen}@53
database:
  storage: "${directory.path}"
template:
  - id: default
    storage: "${zones}"
    file: "%s.zone"
zone:
  - domain: ${domain}
log:
  - target: stderr
    any: warning
`,
  )
  const server = spawn('knotd', ['-c', file], { stdio: ['ignore', 'ignore', 'inherit'] })
  await once(server, 'spawn')
  cleanup.defer(async () => {
    const ended = once(server, 'exit')
    server.kill('SIGTERM')
    await ended
  })
  const owned = cleanup.move()
  return { server: `${listen}:53`, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}
