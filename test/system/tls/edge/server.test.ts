import { once } from 'node:events'
import { readFile, stat } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { runProtocol } from '../../../../server/src/contract/run-protocol.ts'
import { edgeHome } from '../../../../server/src/edge/edge.ts'
import { readRecord } from '../../../../server/src/edge/record.ts'
import { uidsOf } from '../../../../server/src/platform/processes.ts'
import { dial, noCaddy, testAuthority, visit } from '../../../harness/edge.ts'
import {
  certified,
  dashboardHost,
  domain,
  type EdgeSettings,
  edgeSettings,
  uploadCertificate,
} from '../../../harness/edge-server.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { ownServerWithProject } from '../../../harness/project.ts'
import { releaseApp, webSocketLibrary } from '../../../harness/releases.ts'
import { repository } from '../../../harness/repository.ts'
import { isRoot } from '../../../harness/temporary.ts'

const why = await noCaddy()
if (why !== null) skipped('a server with a domain', why)

const password = 'correct horse battery staple'

describe.skipIf(why !== null)('a server with a domain', () => {
  const cleanup = new AsyncDisposableStack()
  let settings: EdgeSettings
  let given: Awaited<ReturnType<typeof ownServerWithProject>>
  /** The host name of the app. */
  let host: string
  let deploymentId: string

  beforeAll(async () => {
    settings = await edgeSettings()
    given = cleanup.use(await ownServerWithProject({ FAIRLEAD_FILE_SOURCES: tmpdir(), ...settings.environment }))
    const source = cleanup.use(await repository({ ...releaseApp(1), ...(await webSocketLibrary()) }))
    const { id, status, url } = await given.deploy('web', source.url)
    deploymentId = id
    expect(status).toBe('running')
    host = new URL(url).hostname
    await uploadCertificate(given.client, `*.${domain}`)
    await certified(host, settings.httpsPort)
    await certified(dashboardHost, settings.httpsPort)
  })
  afterAll(() => cleanup.disposeAsync())

  const dashboard = (path: string, more: Partial<Parameters<typeof visit>[0]> = {}) =>
    visit({ host: dashboardHost, port: settings.httpsPort, path, ...more })

  /** Signs a new user up, as the dashboard does. */
  async function signUp() {
    const token = await given.server.setupLink()
    const headers = {
      'Content-Type': 'application/json',
      'Sec-Fetch-Site': 'same-origin',
      'X-Forwarded-For': '192.0.2.1',
    }
    const body = JSON.stringify({ token, email: `${token.slice(0, 8).toLowerCase()}@example.com`, password })
    const answer = await dashboard('/dashboard/api/setup', { method: 'POST', headers, body })
    expect(answer).toMatchObject({ status: 200 })
    const cookie = String(answer.headers['set-cookie']).split(';')[0] ?? ''
    const { secret } = JSON.parse(answer.text) as { secret: string }
    return { answer, credentials: { Cookie: cookie, 'X-Fairlead-Session': secret } }
  }

  async function webSocket(name: string, path: string, protocols: string[] = []): Promise<WebSocket> {
    const { ca } = await testAuthority()
    const lookup = (_: string, options: { all?: boolean }, done: (...found: unknown[]) => void) =>
      options.all === true ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4)
    const socket = new WebSocket(`wss://${name}:${settings.httpsPort}${path}`, protocols, { ca, lookup } as object)
    await once(socket, 'open')
    return socket
  }

  it('returns addresses below its domain', async () => {
    expect(new URL(`https://${host}:${settings.httpsPort}`).host).toMatch(
      new RegExp(`\\.${domain}:${settings.httpsPort}$`),
    )
    const { text } = await dashboard('/docs')
    expect(text).toContain(`https://${dashboardHost}:${settings.httpsPort}`)
  })

  it.each(['h1', 'h2'] as const)('serves the app and the dashboard by %s', async (protocol) => {
    const app = await visit({ host, port: settings.httpsPort, protocol, method: 'POST', body: 'x' })
    expect(app).toMatchObject({
      status: 200,
      text: 'POST x',
      headers: { 'strict-transport-security': 'max-age=31536000' },
    })
    expect(await dashboard('/docs', { protocol })).toMatchObject({
      status: 200,
      text: expect.stringContaining('<html'),
    })
    expect(JSON.parse((await dashboard('/healthz', { protocol })).text)).toEqual({ status: 'alive' })
  })

  it('redirects visitors of HTTP to HTTPS', async () => {
    const answer = await fetch(`http://127.0.0.1:${settings.httpPort}/a?b`, { redirect: 'manual' })
    expect(answer.status).toBe(308)
    expect(answer.headers.get('location')).toBe(`https://127.0.0.1:${settings.httpsPort}/a?b`)
  })

  it('has no certificate for names that it does not serve', async () => {
    await expect(dial({ host: 'example.org', port: settings.httpsPort })).rejects.toThrow(/alert internal error/)
  })

  it('answers each request for its named host, whatever the connection was made for', async () => {
    const port = settings.httpsPort
    const ofDashboard = await visit({ host: dashboardHost, servername: host, port, path: '/v1/account' })
    expect(JSON.parse(ofDashboard.text)).toMatchObject({ error: { code: 'unauthorized' } })
    const ofApp = await visit({ host, servername: dashboardHost, port, path: '/v1/account' })
    expect(ofApp.text).not.toContain('unauthorized')
  })

  it('keeps sessions in cookies that are limited to this host and HTTPS', async () => {
    const { answer } = await signUp()
    expect(String(answer.headers['set-cookie'])).toMatch(/^__Host-fairlead_session=[^;]+; .*Path=\/;.*Secure/)
    expect(answer.headers['strict-transport-security']).toBe('max-age=31536000')
  })

  it('gets the addresses of clients from the edge, and trusts no client', async () => {
    await dashboard('/v1/account', { headers: { 'X-Forwarded-For': '192.0.2.1', 'X-Request-Id': 'by-the-edge' } })
    const lines = () => given.server.log.filter(({ request_id }) => request_id === 'by-the-edge')
    await expect.poll(lines).toMatchObject([{ address: '127.0.0.1', path: '/v1/account' }])
    // The other listener still trusts no peer.
    const headers = { 'X-Forwarded-For': '192.0.2.1', 'X-Forwarded-Proto': 'https', 'X-Request-Id': 'by-the-port' }
    const direct = await fetch(`${given.server.url}/v1/account`, { headers })
    expect(direct.headers.get('strict-transport-security')).toBeNull()
    const others = () => given.server.log.filter(({ request_id }) => request_id === 'by-the-port')
    await expect.poll(others).toMatchObject([{ address: '127.0.0.1' }])
  })

  it('passes WebSockets of apps on', async () => {
    const socket = await webSocket(host, '/')
    socket.send('hello')
    expect(String((await once(socket, 'message'))[0])).toBe('hello')
    socket.close()
    await once(socket, 'close')
  })

  it('connects clients to their commands', async () => {
    const { id: app_id } = await given.appNamed('web')
    const params = { project_id: given.projectId, app_id }
    const body = { command: ['node', '-e', 'process.stdout.write("printed")'] }
    const { connect } = await given.client.runs.create({ params, body })
    const socket = await webSocket(dashboardHost, connect.path, [runProtocol, connect.ticket])
    const messages: string[] = []
    socket.on('message', (data) => messages.push(String(data)))
    await once(socket, 'close')
    expect(messages.join()).toContain('printed')
  })

  it('follows logs without delay', async () => {
    const { credentials } = await signUp()
    const socket = await dial({ host: dashboardHost, port: settings.httpsPort })
    const path = `/dashboard/api/logs?follow=${given.projectId}/${deploymentId}`
    const sent = request({
      path,
      headers: { Host: dashboardHost, ...credentials },
      createConnection: () => socket,
    }).end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    expect(answer).toMatchObject({
      statusCode: 200,
      headers: { 'content-type': expect.stringContaining('text/event-stream') },
    })
    expect(String((await once(answer, 'data'))[0])).toContain('data:')
    socket.destroy()
  })

  it('lets only the edge reach the sockets and secrets', async () => {
    const home = edgeHome(given.server.dataDirectory)
    const mode = async (path: string) => ((await stat(path)).mode & 0o777).toString(8)
    const { pid } = (await readRecord(home)) ?? { pid: 0 }
    const [uid = -1] = uidsOf(pid)
    expect([
      await mode(home.folder),
      await mode(home.caddy),
      await mode(dirname(home.api)),
      await mode(home.api),
    ]).toEqual(isRoot ? ['711', '700', '710', '660'] : ['700', '700', '700', '600'])
    expect([await mode(home.record), await mode(join(home.folder, 'questions.json'))]).toEqual(['600', '600'])
    expect(await mode(home.configuration)).toBe(isRoot ? '640' : '600')
    if (!isRoot) return
    // The gateway's user, which nothing else uses.
    expect(uid).toBe((await stat(join(given.server.dataDirectory, 'gateway'))).uid)
    expect(uid).toBeGreaterThan(1000)
    expect(await stat(home.api)).toMatchObject({ uid: 0, gid: uid })
    const status = await readFile(`/proc/${pid}/status`, 'utf8')
    // The ports of this test are high ports: the server needs no right of root.
    expect(status).toMatch(/^CapEff:\t0+$/m)
    expect(status).toMatch(/^CapBnd:\t0+$/m)
    expect(status).toMatch(/^NoNewPrivs:\t1$/m)
  })
})
