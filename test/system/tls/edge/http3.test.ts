import { createHash, X509Certificate } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath, launchChromium } from '../../../harness/chromium.ts'
import { dial, noCaddy } from '../../../harness/edge.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { type Beside, beside, dashboardHost } from './beside.ts'

const why = chromiumPath === undefined ? 'no Chromium is installed (apt-get install chromium)' : await noCaddy()
if (why !== null) skipped('HTTP/3', why)

const host = 'a.example.test'

describe.skipIf(why !== null)('a browser with HTTP/3', () => {
  const cleanup = new AsyncDisposableStack()
  let edge: Beside
  beforeAll(async () => {
    edge = cleanup.use(await beside())
    const tell = (by: string) => async (incoming: IncomingMessage, response: ServerResponse) => {
      const { length } = Buffer.concat(await incoming.toArray())
      response.end(`${by} ${incoming.method} ${length} ${incoming.headers['x-forwarded-proto']}`)
    }
    await edge.gateway.start(tell('gateway'))
    await edge.api.start(tell('api'))
    await edge.certify(host, dashboardHost)
    await edge.start()
  })
  afterAll(() => cleanup.disposeAsync())

  it('reads pages and sends bodies, of apps and of the dashboard', async () => {
    const { httpsPort } = edge
    const socket = await dial({ host, port: httpsPort })
    const { publicKey } = new X509Certificate(socket.getPeerCertificate().raw)
    socket.destroy()
    const key = createHash('sha256')
      .update(publicKey.export({ type: 'spki', format: 'der' }))
      .digest('base64')
    const origins = [host, dashboardHost].map((name) => `${name}:${httpsPort}`)
    const chromium = await launchChromium([
      '--host-resolver-rules=MAP *.example.test 127.0.0.1',
      `--origin-to-force-quic-on=${origins}`,
      // HTTP/3 needs a certificate that the browser knows, even if it should ignore errors.
      `--ignore-certificate-errors-spki-list=${key}`,
    ])
    cleanup.defer(() => chromium.close())
    const page = await chromium.newPage()
    for (const [name, by] of [
      [host, 'gateway'],
      [dashboardHost, 'api'],
    ]) {
      const answer = await page.goto(`https://${name}:${httpsPort}/`)
      expect([answer?.status(), await answer?.text()]).toEqual([200, `${by} GET 0 https`])
      expect(await page.evaluate("performance.getEntriesByType('navigation')[0].nextHopProtocol")).toBe('h3')
      const sent = "fetch('/', { method: 'POST', body: 'x'.repeat(5e6) }).then((answered) => answered.text())"
      expect(await page.evaluate(sent)).toBe(`${by} POST 5000000 https`)
    }
  })
})
