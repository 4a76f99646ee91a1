import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { edgeHome } from '../../../../server/src/edge/edge.ts'
import { readRecord } from '../../../../server/src/edge/record.ts'
import { findGateways } from '../../../../server/src/gateway/record.ts'
import { familyOf, unsharedMemoryOf } from '../../../../server/src/platform/processes.ts'
import { dial, noCaddy } from '../../../harness/edge.ts'
import { certified, domain, type EdgeSettings, edgeSettings, uploadCertificate } from '../../../harness/edge-server.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { ownServerWithProject, type serverWithProject } from '../../../harness/project.ts'
import { repository } from '../../../harness/repository.ts'

const why = await noCaddy()
if (why !== null) skipped('uploads through the edge', why)

const chunk = Buffer.alloc(1_000_000, 'x')
const chunks = 1_000
/** The memory of Go and of Node themselves, under load. */
const mostGrowth = 100_000_000

/** Counts the bytes of a request, and sends the requested number. */
const app = {
  'package.json': JSON.stringify({ name: 'counter', scripts: { start: 'node server.js' } }),
  'server.js': `const { createServer } = require('node:http')
const { Readable } = require('node:stream')
const chunk = Buffer.alloc(1_000_000, 'x')
createServer(async (request, response) => {
  if (request.url === '/download') return Readable.from(Array(${chunks}).fill(chunk)).pipe(response)
  let bytes = 0
  for await (const part of request) bytes += part.length
  response.end(String(bytes))
}).listen(process.env.PORT)
`,
}

describe.skipIf(why !== null)('a gigabyte through the edge', () => {
  const cleanup = new AsyncDisposableStack()
  let settings: EdgeSettings
  let given: Awaited<ReturnType<typeof serverWithProject>>
  let host: string

  beforeAll(async () => {
    settings = await edgeSettings()
    given = cleanup.use(await ownServerWithProject({ FAIRLEAD_FILE_SOURCES: tmpdir(), ...settings.environment }))
    const source = cleanup.use(await repository(app))
    const made = await given.deploy('web', source.url)
    expect(made.status).toBe('running')
    host = new URL(made.url).hostname
    await uploadCertificate(given.client, `*.${domain}`)
    await certified(host, settings.httpsPort)
  })
  afterAll(() => cleanup.disposeAsync())

  /** The memory of Caddy and of the gateway. */
  async function memory(): Promise<number> {
    const { dataDirectory: root } = given.server
    const caddy = await readRecord(edgeHome(root))
    const gateways = await findGateways({ root })
    const families = await Promise.all(gateways.map(({ pid }) => familyOf(pid)))
    const pids = [caddy?.pid ?? 0, ...families.flat()]
    return pids.reduce((sum, pid) => sum + unsharedMemoryOf(pid), 0)
  }

  async function growthDuring(work: Promise<unknown>): Promise<number> {
    const before = await memory()
    let most = before
    const sampling = setInterval(() => void memory().then((bytes) => (most = Math.max(most, bytes))), 200)
    await work
    clearInterval(sampling)
    return most - before
  }

  it('is uploaded without being kept in memory', async () => {
    const upload = async () => {
      const socket = await dial({ host, port: settings.httpsPort })
      const headers = { Host: host, 'Content-Length': chunk.length * chunks }
      const sent = request({ method: 'PUT', path: '/', headers, createConnection: () => socket })
      Readable.from(Array<Buffer>(chunks).fill(chunk)).pipe(sent)
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      expect(String(Buffer.concat(await answer.toArray()))).toBe(String(chunk.length * chunks))
    }
    expect(await growthDuring(upload())).toBeLessThan(mostGrowth)
  })

  it('waits for a slow reader, and arrives complete', async () => {
    let bytes = 0
    const download = async () => {
      const socket = await dial({ host, port: settings.httpsPort })
      const sent = request({ path: '/download', headers: { Host: host }, createConnection: () => socket }).end()
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      await new Promise((done) => setTimeout(done, 2_000))
      for await (const part of answer) bytes += (part as Buffer).length
    }
    expect(await growthDuring(download())).toBeLessThan(mostGrowth)
    expect(bytes).toBe(chunk.length * chunks)
  })
})
