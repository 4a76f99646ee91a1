import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { edgeHome } from '../../../../server/src/edge/edge.ts'
import { isRunning } from '../../../../server/src/platform/processes.ts'
import { noCaddy, visit } from '../../../harness/edge.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { freePort } from '../../../harness/ports.ts'
import { beside } from './beside.ts'

const why = await noCaddy()
if (why !== null) skipped('the edge', why)

const host = 'a.example.test'
const accepts = (port: number): Promise<boolean> =>
  new Promise((done) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      done(true)
    }).on('error', () => done(false))
  })

describe.skipIf(why !== null)('the Caddy of the edge', () => {
  it('outlives the server, and the next server adopts it unchanged', async () => {
    await using edge = await beside()
    const first = await edge.start()
    const { pid, startTime } = await edge.record()
    await first.stop('server')
    const second = await edge.start()
    expect(await edge.record()).toMatchObject({ pid, startTime })
    expect(edge.log.filter(({ message }) => message === 'Caddy serves')).toHaveLength(1)
    await second.stop('all')
    expect(isRunning({ pid, startTime })).toBe(false)
    expect(await accepts(edge.httpsPort)).toBe(false)
  })

  it('has nothing of the server’s environment', async () => {
    await using edge = await beside()
    await edge.start()
    const { pid } = await edge.record()
    const names = (await readFile(`/proc/${pid}/environ`, 'utf8')).split('\0').filter(Boolean)
    expect(names.map((each) => each.split('=')[0]).sort()).toEqual([
      'FAIRLEAD_EDGE',
      'GOGC',
      'GOMEMLIMIT',
      'HOME',
      'XDG_CONFIG_HOME',
      'XDG_DATA_HOME',
    ])
  })

  it.each(['its own', 'an adopted one'])('is restarted within two seconds after kill -9: %s', async (kind) => {
    await using edge = await beside()
    await edge.certify(host)
    await edge.gateway.start((_, response) => void response.end('app'))
    const first = await edge.start()
    if (kind === 'an adopted one') {
      await first.stop('server')
      await edge.start()
    }
    const before = await edge.record()
    process.kill(before.pid, 'SIGKILL')
    const killed = performance.now()
    await expect.poll(() => accepts(edge.httpsPort), { interval: 5 }).toBe(false)
    await expect.poll(() => accepts(edge.httpsPort), { interval: 5 }).toBe(true)
    expect(performance.now() - killed).toBeLessThan(2_000)
    expect(await visit({ host, port: edge.httpsPort })).toMatchObject({ status: 200, text: 'app' })
    await expect.poll(async () => (await edge.record()).pid).not.toBe(before.pid)
  })

  it('is ended and restarted when it hangs', async () => {
    await using edge = await beside()
    await edge.start()
    const { pid } = await edge.record()
    process.kill(pid, 'SIGSTOP')
    await expect
      .poll(() => edge.log.find(({ level }) => level === 'warn')?.facts, { timeout: 60_000 })
      .toMatchObject({
        pid,
        reason: 'it did not answer 3 times',
      })
    await expect.poll(async () => (await edge.record()).pid).not.toBe(pid)
    expect(await accepts(edge.httpsPort)).toBe(true)
  })

  it('loads other settings without a new process', async () => {
    await using edge = await beside()
    await edge.certify(host)
    await edge.gateway.start((_, response) => void response.end('app'))
    const first = await edge.start()
    const { pid } = await edge.record()
    await first.stop('server')
    const httpsPort = await freePort()
    await edge.start({ httpsPort })
    expect((await edge.record()).pid).toBe(pid)
    expect(await visit({ host, port: httpsPort })).toMatchObject({ status: 200, text: 'app' })
    expect(await accepts(edge.httpsPort)).toBe(false)
  })

  it('continues with the old settings where new ones cannot be loaded, and loads them when they can', async () => {
    await using edge = await beside()
    const first = await edge.start()
    const { pid } = await edge.record()
    await first.stop('server')
    const other = createServer().listen(0, '0.0.0.0')
    await once(other, 'listening')
    const { port: httpsPort } = other.address() as { port: number }
    await edge.start({ httpsPort })
    expect(edge.problems()).toEqual([
      expect.stringMatching(
        `the edge runs as it was before: port ${httpsPort} is taken by .* \\(pid ${process.pid}\\).*FAIRLEAD_EDGE_HTTPS_PORT`,
      ),
    ])
    expect(await accepts(edge.httpsPort)).toBe(true)
    other.close()
    await expect.poll(() => edge.problems()).toEqual([])
    expect((await edge.record()).pid).toBe(pid)
  })

  it('reports a taken port and what to do, and starts when the port is free', async () => {
    await using edge = await beside()
    const other = createServer().listen(edge.httpPort, '0.0.0.0')
    await once(other, 'listening')
    await edge.start()
    expect(edge.problems()).toEqual([
      expect.stringMatching(
        `no HTTPS: port ${edge.httpPort} is taken by .* \\(pid ${process.pid}\\): stop it, or .* FAIRLEAD_EDGE_HTTP_PORT`,
      ),
    ])
    expect(edge.log.filter(({ level }) => level === 'error')).toHaveLength(1)
    other.close()
    await expect.poll(() => edge.problems()).toEqual([])
    expect(await accepts(edge.httpsPort)).toBe(true)
  })

  it('does not share its ports with the Caddy of another installation', async () => {
    await using edge = await beside()
    await edge.start()
    await using other = await beside()
    await other.start({ httpsPort: edge.httpsPort })
    expect(other.problems()).toEqual([
      expect.stringMatching(`port ${edge.httpsPort} is taken by caddy .* systemctl disable --now caddy`),
    ])
  })

  it('is replaced by a newly installed version within two seconds', async () => {
    await using edge = await beside()
    await edge.certify(host)
    await edge.gateway.start((_, response) => void response.end('app'))
    const first = await edge.start()
    const before = await edge.record()
    await first.stop('server')
    await writeFile(edgeHome(edge.dataDirectory).record, JSON.stringify({ ...before, version: '2.6.0' }))
    const answered: number[] = []
    let isOver = false
    const load = Array.from({ length: 4 }, async () => {
      while (!isOver) {
        const { status } = await visit({ host, port: edge.httpsPort }).catch(() => ({ status: 0 }))
        if (status === 200) answered.push(performance.now())
      }
    })
    await expect.poll(() => answered.length).toBeGreaterThan(10)
    await edge.start()
    expect((await edge.record()).pid).not.toBe(before.pid)
    await expect.poll(() => isRunning(before)).toBe(false)
    const after = answered.length
    await expect.poll(() => answered.length).toBeGreaterThan(after + 10)
    isOver = true
    await Promise.all(load)
    expect(edge.problems()).toEqual([])
    expect(Math.max(...answered.slice(1).map((at, index) => at - (answered[index] ?? 0)))).toBeLessThan(2_000)
  })

  it('without a record of a killed server is found, and ended', async () => {
    await using edge = await beside()
    const first = await edge.start()
    const before = await edge.record()
    await first.stop('server')
    await writeFile(edgeHome(edge.dataDirectory).record, '')
    await edge.start()
    expect(edge.problems()).toEqual([])
    expect(isRunning(before)).toBe(false)
    expect((await edge.record()).pid).not.toBe(before.pid)
  })

  it('that is missing is reported with a remedy, and used as soon as it is there', async () => {
    await using edge = await beside()
    await edge.start({ path: '/nonexistent' })
    expect(edge.problems()).toEqual([
      'the edge does not run, so there is no HTTPS: There is no program caddy on the PATH. Install Caddy 2.6 or newer: apt-get install caddy',
    ])
  })

  it('is refused when it is too old for the configuration', async () => {
    await using edge = await beside()
    await writeFile(join(edge.dataDirectory, 'caddy'), '#!/bin/sh\necho v2.5.2 h1:x\n', { mode: 0o755 })
    await edge.start({ path: edge.dataDirectory })
    expect(edge.problems()).toEqual([
      expect.stringMatching(/is version 2\.5\.2, which is too old\. Install Caddy 2\.6/),
    ])
  })

  it('keeps its log small and its files unreadable for others', async () => {
    await using edge = await beside()
    await edge.start()
    const home = edgeHome(edge.dataDirectory)
    const written = JSON.parse(await readFile(home.configuration, 'utf8')) as { logging: unknown; storage: unknown }
    expect(written.logging).toMatchObject({
      logs: { default: { writer: { filename: join(home.caddy, 'caddy.log'), roll_size_mb: 10, roll_keep: 1 } } },
    })
    expect(written.storage).toMatchObject({ root: join(home.caddy, 'storage') })
  })
})
