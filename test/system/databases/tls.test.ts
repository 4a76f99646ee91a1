import { execFile, spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { connect as connectTcp, type Socket } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls, TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import type { Client } from '@fairlead/server/client'
import pg from 'pg'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createCertificates } from '../../../server/src/features/databases/postgres/certificates.ts'
import { createEmbeddedEngine } from '../../../server/src/features/databases/postgres/embedded.ts'
import { createBinariesStore } from '../../../server/src/platform/postgres/binaries.ts'
import { createdDatabase } from '../../harness/databases.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { freePort } from '../../harness/ports.ts'
import { fairlead, type ServerProcess, serverProcess } from '../../harness/process.ts'
import { repository } from '../../harness/repository.ts'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'

const clusterUser = isRoot ? { uid: 49_999, gid: 49_999 } : null
const day = 24 * 60 * 60_000
const hasPsql = spawnSync('psql', ['--version']).status === 0

/** Returns the protocol that protects a connection; `null` without TLS. */
async function protocolOf(connectionString: string, ssl?: pg.ClientConfig['ssl']): Promise<string | null> {
  const client = new pg.Client({ connectionString, ...(ssl === undefined ? {} : { ssl }) })
  await client.connect()
  try {
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
    return stream instanceof TLSSocket ? stream.getProtocol() : null
  } finally {
    await client.end()
  }
}

/** True when a connection of PostgreSQL's client has TLS. Most languages' drivers use the same library. */
async function isProtectedByLibpq(address: string, parameters: Record<string, string>): Promise<boolean> {
  const url = new URL(address)
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
  const { stdout } = await promisify(execFile)('psql', ['--no-psqlrc', '-c', '\\conninfo', url.href])
  expect(stdout).toContain('127.0.0.1')
  return stdout.includes('TLSv1.3')
}

/** An app that uses TLS for its database, and answers with true when it could verify the certificate. */
const verifyingApp = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `
    const [http, net, tls] = ['node:http', 'node:net', 'node:tls'].map((name) => require(name))
    const { hostname, port } = new URL(process.env.DATABASE_URL)
    http.createServer((_, response) => {
      const socket = net.connect(port, hostname, () => socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])))
      const fail = (error) => response.end(error.message)
      socket.on('error', fail).once('data', () => {
        const secure = tls.connect({ socket, host: hostname, ca: process.env.AUTHORITY }, () => {
          response.end(String(secure.authorized))
          secure.destroy()
        })
        secure.on('error', fail)
      })
    }).listen(process.env.PORT)`,
}

async function authorityOf({ url }: Pick<ServerProcess, 'url'>): Promise<string> {
  const answer = await fetch(`${url}/databases/ca.pem`)
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toBe('application/pem-certificate-chain')
  return answer.text()
}

describe('databases of the embedded engine', () => {
  const started = new AsyncDisposableStack()
  let data = ''
  let file = ''
  let server: ServerProcess
  let client: Client
  let projectId = ''
  let address = ''
  let authority = ''

  beforeAll(async () => {
    const directory = started.use(await temporaryDirectory())
    data = join(directory.path, 'data')
    file = join(directory.path, 'ca.pem')
    const made = await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])
    server = await serverProcess(data)
    started.defer(() => server[Symbol.asyncDispose]())
    client = server.clientFor(made.stdout.trim())
    projectId = (await client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
    address = (await createdDatabase(client, projectId)).connection_string
    authority = await authorityOf(server)
    await writeFile(file, authority)
  })
  afterAll(() => started.disposeAsync())

  it('are reached with TLS on request, and without it as before', async () => {
    expect(new URL(address).search).toBe('')
    expect(await protocolOf(address)).toBeNull()
    expect(await protocolOf(address, { rejectUnauthorized: false })).toBe('TLSv1.3')
    expect(await protocolOf(address, { ca: authority })).toBe('TLSv1.3')
    expect(await protocolOf(address.replace('127.0.0.1', 'localhost'), { ca: authority })).toBe('TLSv1.3')
    await expect(protocolOf(address, {})).rejects.toThrow(/certificate/)
  })

  it.skipIf(!hasPsql)('are reached by psql in every mode (needs psql)', async () => {
    expect(await isProtectedByLibpq(address, { sslmode: 'disable' })).toBe(false)
    expect(await isProtectedByLibpq(address, { sslmode: 'require' })).toBe(true)
    expect(await isProtectedByLibpq(address, { sslmode: 'verify-full', sslrootcert: file })).toBe(true)
    await expect(isProtectedByLibpq(address, { sslmode: 'verify-full', sslrootcert: '/dev/null' })).rejects.toThrow()
  })

  it('are verified by an app, in any network', async () => {
    await using source = await repository(verifyingApp)
    const params = { name: 'web', git_url: source.url, env_vars: { DATABASE_URL: address, AUTHORITY: authority } }
    const { url, status, failure } = await deployAndSettle(client, projectId, params)
    expect({ status, failure }).toEqual({ status: 'running', failure: null })
    expect(await (await fetch(url)).text()).toBe('true')
  })

  it('keep the authority when the server restarts, and hide its key', async () => {
    const key = await stat(join(data, 'database-certificates', 'ca.key'))
    expect(key.mode & 0o777).toBe(0o600)
    expect(key.uid).toBe(process.getuid?.())
    await server[Symbol.asyncDispose]()
    server = await serverProcess(data)
    expect(await authorityOf(server)).toBe(authority)
    expect(await protocolOf(address, { ca: authority })).toBe('TLSv1.3')
  })

  it('get a new certificate before theirs expires, from the same authority and without a restart', async () => {
    await using directory = await temporaryDirectory()
    const logger = pino({ level: 'silent' })
    let now = new Date(Date.now() - 320 * day)
    const certificates = createCertificates({
      directory: join(directory.path, 'certificates'),
      user: clusterUser,
      names: ['127.0.0.1', 'databases.example'],
      now: () => now,
    })
    const engine = createEmbeddedEngine({
      directory: join(directory.path, 'databases'),
      runtimeDirectory: join(directory.path, 'runtime'),
      user: clusterUser,
      host: '127.0.0.1',
      ports: { from: 1, to: 1 },
      certificates,
      binaries: await createBinariesStore({ directory: directory.path, releases: {}, environment: {}, logger }),
      logger,
    })
    try {
      const port = await freePort()
      await engine.open({ version: '18', port }, AbortSignal.timeout(60_000))
      const authority = await engine.authority()
      await using open = await startTls(port, authority)
      const before = open.certificate

      await engine.renewCertificate()
      expect((await certificateAt(port, authority)).serialNumber).toBe(before.serialNumber)

      now = new Date()
      await engine.renewCertificate()
      // The cluster reads the certificate a moment after the request.
      await expect.poll(async () => (await certificateAt(port, authority)).serialNumber).not.toBe(before.serialNumber)
      const renewed = await certificateAt(port, authority)
      expect(renewed.validToDate.getTime() - Date.now()).toBeGreaterThan(360 * day)
      expect(renewed.checkHost('databases.example')).toBe('databases.example')
      expect(await engine.authority()).toBe(authority)
      expect(open.isOpen()).toBe(true)
    } finally {
      await engine.close()
    }
  })
})

describe('the certificates', () => {
  it('are the same for all processes that create them at once, which leave nothing else', async () => {
    await using directory = await temporaryDirectory()
    const options = { directory: join(directory.path, 'certificates'), user: null, names: ['127.0.0.1'] }
    const several = Array.from({ length: 5 }, () => createCertificates(options))
    const authorities = await Promise.all(several.map((each) => each.authority()))
    expect(new Set(authorities).size).toBe(1)
    expect(await readdir(directory.path)).toEqual(['certificates'])
    expect((await readdir(options.directory)).sort()).toEqual(['ca.key', 'ca.pem', 'server.key', 'server.pem'])
    const server = new X509Certificate(await readFile(join(options.directory, 'server.pem')))
    const authority = new X509Certificate(authorities[0] ?? '')
    expect(server.verify(authority.publicKey)).toBe(true)
    expect(authority.ca).toBe(true)
    expect(server.ca).toBe(false)
  })

  it('are created again when a name is missing', async () => {
    await using directory = await temporaryDirectory()
    const options = { directory: join(directory.path, 'certificates'), user: null }
    expect(await createCertificates({ ...options, names: ['127.0.0.1'] }).ensure()).toBe(true)
    const wider = createCertificates({ ...options, names: ['127.0.0.1', 'a.example', '2001:db8::1'] })
    expect(await wider.ensure()).toBe(true)
    expect(await wider.ensure()).toBe(false)
    const certificate = new X509Certificate(await readFile(wider.certificateFile))
    expect(certificate.checkIP('2001:db8::1')).toBe('2001:db8::1')
  })
})

/** Opens a connection with TLS as PostgreSQL's clients do, and keeps it open without a login. */
async function startTls(port: number, authority: string | null) {
  const socket = connectTcp(port, '127.0.0.1')
  await once(socket, 'connect')
  // SSLRequest of PostgreSQL's protocol: its length and its code.
  socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]))
  const [answer] = await once<Buffer>(socket, 'data')
  expect(answer?.toString()).toBe('S')
  const secure = connectTls({ socket, ca: authority ?? '', host: '127.0.0.1' })
  await once(secure, 'secureConnect')
  const certificate = new X509Certificate(secure.getPeerCertificate().raw)
  return {
    certificate,
    isOpen: () => !secure.destroyed && !secure.readableEnded,
    [Symbol.asyncDispose]: async () => void secure.destroy(),
  }
}

async function certificateAt(port: number, authority: string | null): Promise<X509Certificate> {
  await using connection = await startTls(port, authority)
  return connection.certificate
}

const once = <T>(socket: Socket, event: string): Promise<T[]> =>
  new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once(event, (...values: T[]) => resolve(values))
  })
