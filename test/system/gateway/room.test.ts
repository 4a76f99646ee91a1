import { request } from 'node:http'
import { join } from 'node:path'
import { afterEach, expect, it, vi } from 'vitest'
import { createEngine } from '../../../server/src/gateway/routing/router.ts'
import { from } from '../../harness/gateway/edge.ts'
import { type Ask, ask, createScope, HOST, type Place, silent, startApp } from '../../harness/gateway/harness.ts'
import { freePort } from '../../harness/ports.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/** The maximal number of connections of this file's engines. */
const most = vi.hoisted(() => 32)
vi.mock(import('../../../server/src/platform/processes/stat.ts'), async (original) => ({
  ...(await original()),
  descriptorLimit: () => 256 + 2 * most,
}))

const scope = createScope()
afterEach(() => scope.end())
const signal = new AbortController().signal

/** An engine with two apps: `hung.example` never answers, `well.example` does. */
async function startEngine(hasEdge: boolean) {
  const port = await freePort()
  const engine = createEngine({
    log: silent,
    host: HOST,
    apps: { mode: 'hostnames', port, scheme: 'https' },
    isTrustedProxy: () => false,
    onRefused: () => undefined,
    edge: hasEdge ? { hosts: [], httpsPort: 443 } : null,
  })
  scope.defer(() => engine.handlers.stop({ timeoutMs: 0 }, signal))
  const hung = await startApp(scope, () => undefined)
  const well = await startApp(scope, (_, res) => res.end('well'))
  for (const [appId, { upstream }] of Object.entries({ hung, well })) {
    await engine.handlers.open({ appId, address: { hostname: `${appId}.example` } }, signal)
    await engine.handlers.route({ appId, upstream }, signal)
  }
  const folder = await temporaryDirectory()
  scope.defer(() => folder[Symbol.asyncDispose]())
  const path = join(folder.path, 'edge.sock')
  if (hasEdge) await engine.edge.listener?.listen({ path })
  else await engine.handlers.listen(null, signal)
  return { engine, place: hasEdge ? path : port }
}

const get = (place: Place, host: string, more: Ask = {}) => ask(place, { headers: from(host), ...more })

for (const hasEdge of [true, false]) {
  it(`an app that never answers leaves room for others ${hasEdge ? 'behind an edge' : 'on the port that all share'}`, async () => {
    const { engine, place } = await startEngine(hasEdge)
    const refused: (number | undefined)[] = []
    const hanging = Array.from({ length: most }, () => {
      const at = typeof place === 'string' ? { socketPath: place } : { host: HOST, port: place }
      const asked = request({ ...at, agent: false, headers: from('hung.example') })
      asked.on('response', (res) => refused.push(res.resume().statusCode)).on('error', () => undefined)
      asked.end()
      return asked
    })
    await expect.poll(() => refused.length).toBe(most / 2)
    expect(new Set(refused)).toEqual(new Set([503]))
    for (let round = 0; round < 2 * most; round += 1) expect((await get(place, 'well.example')).body).toBe('well')
    const { status, headers, body } = await get(place, 'hung.example')
    expect([status, headers['retry-after'], body]).toEqual([503, '1', expect.stringContaining('Too many requests')])
    const [traffic] = await engine.handlers.takeTraffic(null, signal)
    expect(traffic).toMatchObject({ appId: 'hung', answers: [0, 0, 0, most / 2 + 1] })
    // Ended requests free their connections.
    for (const asked of hanging) asked.destroy()
    await expect
      .poll(async () => {
        const waiting = get(place, 'hung.example').then(({ status }) => status)
        waiting.catch(() => undefined)
        return Promise.race([waiting, new Promise((resolve) => setTimeout(resolve, 200, 'waits'))])
      })
      .toBe('waits')
  })
}
