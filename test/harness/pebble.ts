import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { issueCertificate, makeAuthority, makeKey } from '../../server/src/features/databases/postgres/certificates.ts'
import { freePort } from './ports.ts'
import { temporaryDirectory } from './temporary.ts'

/* Pebble, Let's Encrypt's certificate authority for tests. Its TLS certificate comes from an authority of the test. */

export interface PebbleOptions {
  readonly host?: string
  /** The ports at which Pebble validates names. */
  readonly httpPort: number
  readonly tlsPort: number
  /** Pebble's DNS server: an address and a port. */
  readonly dnsServer: string
  /** The lifetime of its certificates; five years by default. */
  readonly lifetimeSeconds?: number
  /** Names that Pebble rejects. */
  readonly blocked?: readonly string[]
  /** The percentage of valid nonces that Pebble rejects. */
  readonly refusedNonces?: number
}

export interface Pebble extends AsyncDisposable {
  readonly directoryUrl: string
  /** For `FAIRLEAD_ACME_CA`. */
  readonly caFile: string
  /** Returns the root of the issued certificates, as PEM. */
  roots(): Promise<string>
  /** Returns the state of a certificate, such as `Valid` or `Revoked`. */
  statusOf(serial: string): Promise<string>
  /** Stops Pebble, as in an outage. */
  stop(): Promise<void>
  /** Starts Pebble again, without its accounts, orders and certificates, and with another root. */
  start(): Promise<void>
}

/** Returns why Pebble cannot start here; null when it can. */
export const noPebble = async (): Promise<string | null> =>
  (await canRun('pebble', ['-h'])) ? null : 'pebble is missing (Debian: apt install pebble)'

/** True when a program can be started. */
export const canRun = (program: string, args: readonly string[]): Promise<boolean> =>
  new Promise((done) => execFile(program, args, { timeout: 10_000 }, (error) => done(error?.code !== 'ENOENT')))

export async function startPebble(options: PebbleOptions): Promise<Pebble> {
  const { host = '127.0.0.1' } = options
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const [port, managementPort] = [await freePort(), await freePort()]
  const files = await writeFiles(directory.path, host)
  const config = join(directory.path, 'config.json')
  await writeFile(config, JSON.stringify({ pebble: configOf(options, { host, port, managementPort, files }) }))

  let child: ChildProcess | undefined
  const directoryUrl = `https://${host}:${port}/dir`
  const ask = (path: string) => get(new URL(path, `https://${host}:${managementPort}`), files.authority)
  const stop = async () => {
    const running = child
    child = undefined
    if (running !== undefined) await end(running)
  }
  const start = async () => {
    child = await run(['-config', config, '-dnsserver', options.dnsServer], options.refusedNonces ?? 5)
    await untilAnswered(() => get(new URL(directoryUrl), files.authority))
  }
  cleanup.defer(stop)
  await start()
  const owned = cleanup.move()
  return {
    directoryUrl,
    caFile: files.ca,
    roots: () => ask('/roots/0'),
    async statusOf(serial) {
      const { Status } = JSON.parse(await ask(`/cert-status-by-serial/${serial.replace(/^0+/, '')}`)) as {
        Status: string
      }
      return Status
    },
    stop,
    start,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

async function writeFiles(directory: string, host: string) {
  const authority = await makeAuthority(new Date())
  const key = await makeKey()
  const files = {
    ca: join(directory, 'ca.pem'),
    certificate: join(directory, 'own.pem'),
    key: join(directory, 'key.pem'),
  }
  await writeFile(files.ca, authority.certificate)
  await writeFile(files.certificate, await issueCertificate(authority, key, [host, 'localhost'], new Date()))
  await writeFile(files.key, key)
  return { ...files, authority: authority.certificate }
}

function configOf(
  { httpPort, tlsPort, lifetimeSeconds, blocked = [] }: PebbleOptions,
  own: {
    readonly host: string
    readonly port: number
    readonly managementPort: number
    readonly files: { readonly certificate: string; readonly key: string }
  },
): object {
  return {
    listenAddress: `${own.host}:${own.port}`,
    managementListenAddress: `${own.host}:${own.managementPort}`,
    certificate: own.files.certificate,
    privateKey: own.files.key,
    httpPort,
    tlsPort,
    ocspResponderURL: '',
    externalAccountBindingRequired: false,
    domainBlocklist: blocked,
    ...(lifetimeSeconds === undefined ? {} : { certificateValidityPeriod: lifetimeSeconds }),
  }
}

async function run(args: readonly string[], refusedNonces: number): Promise<ChildProcess> {
  const env = { PATH: process.env['PATH'], PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: String(refusedNonces) }
  const child = spawn('pebble', args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
  await once(child, 'spawn')
  return child
}

/** Ends a process of a test. */
export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

/** Waits until a program that was just started answers. */
export async function untilAnswered(ask: () => Promise<unknown>): Promise<void> {
  for (let left = 400; ; left--) {
    try {
      await ask()
      return
    } catch (error) {
      if (left === 0) throw error
      await sleep(25)
    }
  }
}

async function get(url: URL, ca: string): Promise<string> {
  const sent = request(url, { ca, agent: false }).end()
  const [answer] = await once(sent, 'response')
  const text = String(Buffer.concat(await answer.toArray()))
  if (answer.statusCode !== 200) throw new Error(`${url} answered with ${answer.statusCode}: ${text}`)
  return text
}
