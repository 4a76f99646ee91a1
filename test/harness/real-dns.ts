import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, constants, mkdir, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type DnsServer, query } from '../../server/src/platform/dns/transport.ts'
import { temporaryDirectory } from './temporary.ts'

/*
 * Third-party name servers: Knot DNS as an authoritative server, whose zones may be signed, and Unbound as a validating
 * recursive server.
 */

const run = promisify(execFile)
const programs = `${process.env['PATH']}${delimiter}/usr/sbin${delimiter}/sbin`
const env = { PATH: programs }

/** Returns the missing program of this machine; null when it has all. */
export async function missingProgram(...names: readonly string[]): Promise<string | null> {
  for (const name of names) {
    const places = programs.split(delimiter).map((folder) => join(folder, name))
    const found = await Promise.all(
      places.map((path) =>
        access(path, constants.X_OK).then(
          () => true,
          () => false,
        ),
      ),
    )
    if (!found.includes(true)) return `${name} is missing`
  }
  return null
}

export interface Knot extends AsyncDisposable {
  readonly server: DnsServer
  /** Returns a trust anchor for a zone's signatures. */
  trustAnchor(zone: string): Promise<string>
  stop(): Promise<void>
}

/**
 * Starts Knot DNS.
 *
 * @param zones the zones by name; their records as in zone files, with names below the zone
 * @param signed the names of the signed zones
 */
export async function startKnot(
  server: DnsServer,
  zones: Readonly<Record<string, string>>,
  signed: readonly string[] = [],
): Promise<Knot> {
  await using cleanup = new AsyncDisposableStack()
  const { path } = cleanup.use(await temporaryDirectory())
  await mkdir(join(path, 'zones'))
  const names = Object.keys(zones)
  const fileOf = (zone: string) => join(path, 'zones', `${zone === '' ? 'root' : zone}.zone`)
  for (const [zone, records] of Object.entries(zones)) {
    const origin = zone === '' ? '.' : `${zone}.`
    const soa = `@ SOA ns1 hostmaster 1 3600 900 604800 300\n@ NS ns1\nns1 A ${server.address}`
    await writeFile(fileOf(zone), `$ORIGIN ${origin}\n$TTL 300\n${soa}\n${records}\n`)
  }
  const configuration = join(path, 'knot.conf')
  const lines = names.map((zone) => {
    const signing = signed.includes(zone) ? '\n    dnssec-signing: on' : ''
    return `  - domain: "${zone}."\n    file: "${fileOf(zone)}"\n    zonefile-sync: -1\n    zonefile-load: difference-no-serial\n    journal-content: all${signing}`
  })
  await writeFile(
    configuration,
    `server:
  rundir: "${path}"
  listen: ${server.address}@${server.port}
database:
  storage: "${path}"
log:
  - target: stderr
    any: error
zone:
${lines.join('\n')}
`,
  )
  const running = await startServer(cleanup, 'knotd', ['-c', configuration], server, names)
  const owned = cleanup.move()
  return {
    server,
    async trustAnchor(zone) {
      const { stdout } = await run('keymgr', ['-c', configuration, `${zone}.`, 'ds'], { env })
      const [line = ''] = stdout.split('\n').filter((each) => / 2 [0-9a-f]+$/i.test(each))
      return line
    },
    stop: () => stop(running),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/**
 * Starts Unbound, which trusts these anchors. A server at port 53 becomes its root, and Unbound follows delegations
 * below it. A server at another port gets all queries, because delegations name no port.
 */
export async function startUnbound(
  server: DnsServer,
  authority: DnsServer,
  anchors: readonly string[],
): Promise<{ readonly server: DnsServer } & AsyncDisposable> {
  await using cleanup = new AsyncDisposableStack()
  const { path } = cleanup.use(await temporaryDirectory())
  const configuration = join(path, 'unbound.conf')
  const isRootServer = authority.port === 53
  const way = isRootServer
    ? `stub-zone:\n  name: "."\n  stub-addr: ${authority.address}`
    : `forward-zone:\n  name: "."\n  forward-addr: ${authority.address}@${authority.port}`
  await writeFile(
    configuration,
    `server:
  directory: "${path}"
  chroot: ""
  username: ""
  pidfile: "${join(path, 'unbound.pid')}"
  use-syslog: no
  logfile: ""
  verbosity: 0
  interface: ${server.address}@${server.port}
  do-ip6: no
  do-not-query-localhost: no
  module-config: "validator iterator"
${anchors.map((anchor) => `  trust-anchor: "${anchor}"`).join('\n')}
${way}
remote-control:
  control-enable: no
`,
  )
  await startServer(cleanup, 'unbound', ['-d', '-p', '-c', configuration], server, [])
  const owned = cleanup.move()
  return { server, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

async function startServer(
  cleanup: AsyncDisposableStack,
  program: string,
  args: readonly string[],
  server: DnsServer,
  zones: readonly string[],
): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'], env })
  await once(child, 'spawn')
  cleanup.defer(() => stop(child))
  const deadline = AbortSignal.timeout(30_000)
  // While Knot signs zones, it does not serve them yet.
  for (const name of zones.length === 0 ? ['localhost'] : zones) {
    const question = { name, type: 'SOA', recursion: true } as const
    for (;;) {
      const answer = await query(server, question, deadline).catch(() => undefined)
      if (answer !== undefined && (zones.length === 0 || answer.answers.length > 0)) break
      if (deadline.aborted || child.exitCode !== null) throw new Error(`${program} does not answer for ${name}`)
      await sleep(50)
    }
  }
  return child
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}
