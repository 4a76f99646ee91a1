import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Status } from '../../server/src/commands/machine-status.ts'
import { edgeHome } from '../../server/src/edge/edge.ts'
import { readRecord } from '../../server/src/edge/record.ts'
import { deployAndSettle } from '../harness/deployments.ts'
import { noCaddy, visit } from '../harness/edge.ts'
import {
  certified,
  dashboardHost,
  domain,
  type EdgeSettings,
  edgeSettings,
  uploadCertificate,
} from '../harness/edge-server.ts'
import { skipped } from '../harness/ordinary-user.ts'
import { freePort } from '../harness/ports.ts'
import { fairlead, processesAround, type ServerProcess, serverProcess, signal } from '../harness/process.ts'
import { releaseApp, webSocketLibrary } from '../harness/releases.ts'
import { repository } from '../harness/repository.ts'
import { temporaryDirectory } from '../harness/temporary.ts'
import { startVisits } from '../system/tls/edge/visits.ts'

/* Visitors of an app do not notice the end of a server, for any cause, nor the start of another. */

const why = await noCaddy()
if (why !== null) skipped('visitors of the edge while its server ends and starts', why)

const isAnswerOfApp = (text: string, method: string) => text.startsWith(`${method} `)
const isAlive = (text: string) => text === '{"status":"alive"}'

describe.skipIf(why !== null)('visitors', () => {
  const cleanup = new AsyncDisposableStack()
  let data: string
  let edge: EdgeSettings
  let settings: Readonly<Record<string, string>>
  let server: ServerProcess
  let host: string

  beforeAll(async () => {
    const directory = cleanup.use(await temporaryDirectory())
    data = join(directory.path, 'data')
    edge = await edgeSettings()
    settings = {
      FAIRLEAD_PORT: String(await freePort()),
      FAIRLEAD_ON_STOP: 'server',
      FAIRLEAD_FILE_SOURCES: tmpdir(),
      ...edge.environment,
    }
    server = await serverProcess(data, settings)
    const key = await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])
    cleanup.defer(async () => {
      await server.kill()
      await fairlead(['stop', '--timeout', '5', '--data-dir', data], settings)
      // A program that the killed server had just started briefly ends by itself.
      await vi.waitFor(async () => expect(await processesAround(directory.path)).toEqual([]), 30_000)
    })
    const client = server.clientFor(key.stdout.trim())
    const { id } = await client.projects.create({ body: { name: 'shop' } })
    const source = cleanup.use(await repository({ ...releaseApp(1), ...(await webSocketLibrary()) }))
    const made = await deployAndSettle(client, id, { name: 'web', git_url: source.url })
    expect(made.status).toBe('running')
    host = new URL(made.url).hostname
    await uploadCertificate(client, `*.${domain}`)
    await certified(host, edge.httpsPort)
  })
  afterAll(() => cleanup.disposeAsync())

  const pidOfCaddy = async () => (await readRecord(edgeHome(data)))?.pid
  const to = (name: string, path = '/') => ({ host: name, port: edge.httpsPort, path })

  it('return within two seconds after a kill of Caddy', async () => {
    const before = await pidOfCaddy()
    process.kill(before ?? 0, 'SIGKILL')
    const killed = performance.now()
    const answer = async () => {
      for (;;) {
        const found = await visit(to(host)).catch(() => null)
        if (found !== null) return found
      }
    }
    expect(await answer()).toMatchObject({ status: 200 })
    const ms = performance.now() - killed
    expect(ms).toBeLessThan(2_000)
    // Visitors may come before the record of the new Caddy is written.
    await expect.poll(pidOfCaddy).not.toBe(before)
    process.stdout.write(`after kill -9 of Caddy: answered again after ${Math.round(ms)} ms\n`)
  })

  it('do not notice a kill, start and update of the server, nor another gateway', async () => {
    const pid = await pidOfCaddy()
    const visits = await startVisits(to(host), isAnswerOfApp)
    const more = async () => {
      const before = visits.requests()
      await expect.poll(() => visits.requests()).toBeGreaterThan(before + 200)
    }
    await more()
    await server.kill()
    await more()
    // The API waits for the next server.
    const waiting = visit(to(dashboardHost, '/healthz'))
    // It also replaces the running gateway.
    server = await serverProcess(data, { ...settings, FAIRLEAD_GATEWAY_WORKERS: '2' })
    expect(await waiting).toMatchObject({ status: 200 })
    await server.waitForLog(({ msg }) => msg === 'the gateway is replaced')
    await more()

    const api = await startVisits(to(dashboardHost, '/healthz'), (text, method) => method === 'POST' || isAlive(text))
    expect(await fairlead(['reload', '--data-dir', data])).toMatchObject({ code: 0 })
    await more()
    await expect.poll(() => server.child.exitCode).toBe(0)
    const { failures: ofApi, requests: toApi } = await api.stop()
    expect(toApi).toBeGreaterThan(100)
    expect(ofApi).toEqual([])

    expect(await pidOfCaddy()).toBe(pid)
    const { requests, failures, slowestMs } = await visits.stop()
    expect(failures).toEqual([])
    process.stdout.write(`through the edge: ${requests} requests, 0 failed, slowest ${Math.round(slowestMs)} ms\n`)
  })

  it('reach other ports after a change of the settings, by the same Caddy', async () => {
    const before = await pidOfCaddy()
    await endServers(data)
    const next = await freePort()
    server = await serverProcess(data, { ...settings, FAIRLEAD_EDGE_HTTPS_PORT: String(next) })
    await certified(host, next)
    expect(await visit({ ...to(host), port: next })).toMatchObject({ status: 200 })
    expect(await pidOfCaddy()).toBe(before)
  })

  it('find nothing after the removal of the domain', async () => {
    await endServers(data)
    const { FAIRLEAD_PORT = '', FAIRLEAD_GATEWAY_PORT = '' } = settings
    server = await serverProcess(data, { FAIRLEAD_PORT, FAIRLEAD_GATEWAY_PORT, FAIRLEAD_APPS_DOMAIN: domain })
    await expect(redirectOf(edge)).rejects.toThrow('fetch failed')
  })
})

const redirectOf = ({ httpPort }: EdgeSettings) => fetch(`http://127.0.0.1:${httpPort}/`, { redirect: 'manual' })

/** Stops the servers of a data directory, and leaves everything else running. */
async function endServers(data: string): Promise<void> {
  const status = async () => JSON.parse((await fairlead(['status', '--json', '--data-dir', data])).stdout) as Status
  for (const { pid } of (await status()).servers) signal(pid ?? undefined, 'SIGTERM')
  await expect.poll(async () => (await status()).servers).toEqual([])
}
