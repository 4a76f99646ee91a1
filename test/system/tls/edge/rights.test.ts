import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { readFile, stat } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { edgeHome } from '../../../../server/src/edge/edge.ts'
import { readRecord } from '../../../../server/src/edge/record.ts'
import { isPortFree } from '../../../../server/src/platform/ports.ts'
import { userOf } from '../../../../server/src/platform/processes.ts'
import { noCaddy } from '../../../harness/edge.ts'
import { type EdgeSettings, edgeSettings } from '../../../harness/edge-server.ts'
import { noOrdinaryUser, ordinaryDirectory, ordinaryUser, skipped } from '../../../harness/ordinary-user.ts'
import { fairlead, serverProcess } from '../../../harness/process.ts'
import { ownServer } from '../../../harness/server.ts'
import { isRoot } from '../../../harness/temporary.ts'

const why = (await noCaddy()) ?? (isRoot ? null : 'the tests do not run as root')
if (why !== null) skipped('the rights of the edge', why)
const noUser = why ?? (await noOrdinaryUser())
if (why === null && noUser !== null) skipped('the edge of an ordinary user', noUser)

/** The bit of CAP_NET_BIND_SERVICE (capabilities(7)). */
const lowPorts = (1 << 10).toString(16).padStart(16, '0')

async function lowPort(): Promise<number> {
  const port = randomInt(300, 1000)
  return (await isPortFree(port, '0.0.0.0')) ? port : lowPort()
}

/** Uses `node:http`: `fetch` refuses some low ports. */
async function redirectOf({ httpPort: port }: Pick<EdgeSettings, 'httpPort'>): Promise<number | undefined> {
  const sent = request({ host: '127.0.0.1', port, agent: false }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  answer.resume()
  return answer.statusCode
}

async function edgeIn(dataDirectory: string) {
  const record = await readRecord(edgeHome(dataDirectory))
  if (record === null) throw new Error('no edge runs')
  const status = await readFile(`/proc/${record.pid}/status`, 'utf8')
  const capabilities = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map(
    (set) => new RegExp(`^${set}:\t(\\w+)$`, 'm').exec(status)?.[1],
  )
  return {
    pid: record.pid,
    uid: userOf(record.pid),
    capabilities,
    groups: /^Groups:\t(.*)$/m.exec(status)?.[1]?.trim(),
  }
}

describe('the Caddy of a server', () => {
  it.skipIf(why !== null)('of root listens on low ports like the gateway, with no other right', async () => {
    const { environment } = await edgeSettings()
    const [httpPort, httpsPort] = [await lowPort(), await lowPort()]
    const ports = { FAIRLEAD_EDGE_HTTP_PORT: String(httpPort), FAIRLEAD_EDGE_HTTPS_PORT: String(httpsPort) }
    await using server = await ownServer({ ...environment, ...ports })
    expect(await redirectOf({ httpPort })).toBe(308)
    const edge = await edgeIn(server.dataDirectory)
    expect(edge.capabilities).toEqual(Array(5).fill(lowPorts))
    expect(edge.groups).toBe('')
    expect(edge.uid).toBe((await stat(join(server.dataDirectory, 'gateway'))).uid)
    expect(edge.uid).not.toBe(0)
  })

  it.skipIf(noUser !== null)('of an ordinary user runs as that user, and the commands find and end it', async () => {
    await using directory = await ordinaryDirectory()
    const data = directory.path
    const settings = await edgeSettings()
    const environment = { ...settings.environment, FAIRLEAD_ON_STOP: 'server' }
    const server = await serverProcess(data, environment, ordinaryUser)
    expect(await redirectOf(settings)).toBe(308)
    const edge = await edgeIn(data)
    expect(edge.uid).toBe(ordinaryUser?.uid)
    await server.kill()
    await using next = await serverProcess(data, environment, ordinaryUser)
    expect((await edgeIn(data)).pid).toBe(edge.pid)
    await next.stop()
    const { stdout } = await fairlead(['stop', '--data-dir', data], environment, { user: ordinaryUser })
    expect(stdout).toContain(`(pid ${edge.pid})`)
    await expect(redirectOf(settings)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  })

  it.skipIf(noUser !== null)('of an ordinary user without the right to low ports says what to do', async () => {
    await using directory = await ordinaryDirectory()
    const data = directory.path
    const port = await lowPort()
    const { environment } = await edgeSettings()
    await using server = await serverProcess(
      data,
      { ...environment, FAIRLEAD_EDGE_HTTPS_PORT: String(port) },
      ordinaryUser,
    )
    const { problems } = (await (await fetch(`${server.url}/readyz`)).json()) as { problems: string[] }
    expect(problems).toEqual([expect.stringContaining(`this user may not listen on port ${port}`)])
    const doctor = await fairlead(
      ['doctor', '--data-dir', data],
      { ...environment, FAIRLEAD_EDGE_HTTPS_PORT: String(port) },
      { user: ordinaryUser },
    )
    expect(doctor.stdout).toMatch(new RegExp(`^missing +HTTPS port +${port} may not be listened on$`, 'm'))
    expect(doctor.stdout).toContain('net.ipv4.ip_unprivileged_port_start')
  })
})
