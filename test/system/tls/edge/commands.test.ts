import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Status } from '../../../../server/src/commands/machine-status.ts'
import { edgeHome } from '../../../../server/src/edge/edge.ts'
import { isRunning } from '../../../../server/src/platform/processes.ts'
import { noCaddy } from '../../../harness/edge.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { freePort } from '../../../harness/ports.ts'
import { fairlead } from '../../../harness/process.ts'
import { type Beside, beside } from './beside.ts'

const why = await noCaddy()
if (why !== null) skipped('commands that know the edge', why)

const settingsOf = ({ httpPort, httpsPort }: Pick<Beside, 'httpPort' | 'httpsPort'>) => ({
  FAIRLEAD_DOMAIN: 'example.test',
  FAIRLEAD_ACME_EMAIL: 'operator@example.test',
  FAIRLEAD_EDGE_HTTP_PORT: String(httpPort),
  FAIRLEAD_EDGE_HTTPS_PORT: String(httpsPort),
  FAIRLEAD_PORT: '0',
  FAIRLEAD_GATEWAY_PORT: '0',
})

/** Returns the line of `fairlead doctor` about one check. */
const lineOf = (stdout: string, subject: string): string =>
  stdout.split('\n').find((line) => line.includes(` ${subject} `)) ?? ''

describe.skipIf(why !== null)('commands', () => {
  it('stop ends the edge, and status shows it before', async () => {
    await using edge = await beside()
    const { stop } = await edge.start()
    const running = await edge.record()
    await stop('server')
    const to = ['--data-dir', edge.dataDirectory]
    const status = async () =>
      JSON.parse((await fairlead(['status', '--json', ...to], settingsOf(edge))).stdout) as Status
    expect(await status()).toMatchObject({ edges: [{ version: running.version, pid: running.pid }], problems: [] })
    expect((await fairlead(['status', ...to], settingsOf(edge))).stdout).toMatch(
      new RegExp(`^edge +${running.version} +${running.pid} .* Caddy$`, 'm'),
    )
    const { code, stdout } = await fairlead(['stop', ...to], settingsOf(edge))
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: `stopped the edge, Caddy ${running.version} (pid ${running.pid})\n`,
    })
    expect(isRunning(running)).toBe(false)
    expect(await status()).toMatchObject({
      edges: [{ pid: null }],
      problems: ['the edge does not run: there is no HTTPS'],
    })
  })

  it('stop ends an unrecorded Caddy', async () => {
    await using edge = await beside()
    const { stop } = await edge.start()
    const running = await edge.record()
    await stop('server')
    await writeFile(edgeHome(edge.dataDirectory).record, '')
    const { stdout } = await fairlead(['stop', '--data-dir', edge.dataDirectory], settingsOf(edge))
    expect(stdout).toBe(`stopped the edge (pid ${running.pid})\n`)
    expect(isRunning(running)).toBe(false)
  })

  it('doctor says what the edge needs, and which program has its ports', async () => {
    await using edge = await beside()
    const settings = settingsOf(edge)
    const doctor = async (more: Record<string, string> = {}) =>
      (await fairlead(['doctor', '--data-dir', edge.dataDirectory], { ...settings, ...more })).stdout
    const free = await doctor()
    expect(lineOf(free, 'Caddy')).toMatch(/^ok .* \d+\.\d+\.\d+ \(\/.*caddy\)/)
    expect(lineOf(free, 'HTTPS port')).toMatch(`${edge.httpsPort} is free`)

    await edge.start()
    const { pid } = await edge.record()
    const runs = await doctor()
    expect(lineOf(runs, 'HTTP port')).toMatch(`${edge.httpPort}: the edge runs`)
    expect(lineOf(runs, 'HTTPS port')).toMatch(`${edge.httpsPort}: the edge runs`)

    const other = join(edge.dataDirectory, 'other')
    await mkdir(other)
    const { stdout } = await fairlead(['doctor', '--data-dir', other], settings)
    expect(lineOf(stdout, 'HTTP port')).toMatch(/^missing .* is taken/)
    expect(stdout).toContain(`port ${edge.httpPort} is taken by caddy (pid ${pid}): systemctl disable --now caddy`)

    const without = await doctor({ PATH: other })
    expect(lineOf(without, 'Caddy')).toMatch(/^missing .*no program caddy on the PATH/)
    expect(without).toContain('systemctl disable --now caddy: the service that the package starts takes port 80')
  })

  it('doctor looks for nsupdate where DNS updates are configured', async () => {
    await using edge = await beside()
    const file = join(edge.dataDirectory, 'key')
    await writeFile(file, 'key')
    const settings = { ...settingsOf(edge), FAIRLEAD_DNS_UPDATE_KEY: file, FAIRLEAD_DNS_UPDATE_SERVER: '127.0.0.1' }
    const { stdout } = await fairlead(['doctor', '--data-dir', edge.dataDirectory], {
      ...settings,
      PATH: edge.dataDirectory,
    })
    expect(lineOf(stdout, 'nsupdate')).toMatch(/^missing .*not on PATH/)
    expect(stdout).toContain('apt-get install bind9-dnsutils')
  })

  it('doctor says how to turn on HTTPS', async () => {
    await using edge = await beside()
    const { stdout } = await fairlead(['doctor', '--data-dir', edge.dataDirectory], {
      FAIRLEAD_PORT: String(await freePort()),
    })
    expect(lineOf(stdout, 'HTTPS')).toMatch(/^- .*no domain is configured/)
    expect(stdout).toContain('FAIRLEAD_DOMAIN and FAIRLEAD_ACME_EMAIL')
  })
})
