import { afterEach, describe, expect, it } from 'vitest'
import type { GatewayClient } from '../../../server/src/gateway/client.ts'
import type { ToEngine } from '../../../server/src/gateway/protocol/calls.ts'
import { createGateway } from '../../harness/gateway/channel.ts'
import { ask, createScope, HOST, silent, startApp, startGateway, upstreamAt } from '../../harness/gateway/harness.ts'
import { freePort } from '../../harness/ports.ts'

const scope = createScope()
afterEach(() => scope.end())

/** A gateway with its received messages. */
function startRecorded(): { gateway: GatewayClient; sent: ToEngine[] } {
  const sent: ToEngine[] = []
  const options = { log: silent, host: HOST, apps: { mode: 'ports' }, isTrustedProxy: () => false } as const
  const gateway = createGateway(options, (message) => {
    if (message.type === 'request' || message.type === 'cancel') sent.push(message)
  })
  scope.defer(() => gateway.stop({ timeoutMs: 0 }))
  return { gateway, sent }
}

/** A server that answers `/held` only when the test says so. */
async function startHolding() {
  const arrived = Promise.withResolvers<() => void>()
  const app = await startApp(scope, (req, res) => {
    if (req.url === '/held') arrived.resolve(() => res.end('held'))
    else res.end('fast')
  })
  return { app, arrived: arrived.promise }
}

describe('the channel', () => {
  it('executes calls in their order', async () => {
    const { gateway } = startRecorded()
    const port = await freePort()
    const [one, two] = [upstreamAt(1), upstreamAt(2)]
    const results = await Promise.all([
      gateway.open('app', { port }),
      gateway.route('app', one),
      gateway.route('app', two),
      gateway.route('app', null),
      gateway.close('app'),
      gateway.open('app', { port }),
      gateway.route('app', one),
    ])
    expect(results).toEqual([undefined, null, one, two, undefined, undefined, null])
    expect(gateway.current('app')).toEqual(one)
  })
})

describe('a route', () => {
  it('is no longer current when the app is closed or the gateway stops', async () => {
    const { gateway } = await startGateway(scope, { upstream: upstreamAt(1) })
    await gateway.close('app')
    expect(gateway.current('app')).toBeNull()
    await gateway.open('app', { port: await freePort() })
    expect(gateway.current('app')).toBeNull()
    await gateway.route('app', upstreamAt(1))
    await gateway.stop({ timeoutMs: 0 })
    expect(gateway.current('app')).toBeNull()
  })
})

describe('a drain', () => {
  it('ends early when its signal aborts, cuts nothing, and can be awaited again', async () => {
    const { app, arrived } = await startHolding()
    const { gateway, port } = await startGateway(scope, { upstream: app.upstream })
    const held = ask(port, { path: '/held' })
    const finish = await arrived
    await gateway.route('app', null)
    await gateway.drain(app.upstream, { timeoutMs: 2 ** 30, signal: AbortSignal.abort() })
    const cancellation = new AbortController()
    const drain = gateway.drain(app.upstream, { timeoutMs: 2 ** 30, signal: cancellation.signal })
    // The drain has begun when a later call gets its reply.
    await gateway.takeTraffic()
    cancellation.abort()
    await drain
    const patient = gateway.drain(app.upstream, { timeoutMs: 2 ** 30 })
    finish()
    expect((await held).body).toBe('held')
    await patient
  })

  it('of a routed release is refused, even when its signal has aborted', async () => {
    const upstream = upstreamAt(1)
    const { gateway } = await startGateway(scope, { upstream })
    const drain = gateway.drain(upstream, { timeoutMs: 0, signal: AbortSignal.abort() })
    await expect(drain).rejects.toThrow('route the app elsewhere first')
  })

  it('sends no cancellation for a signal that aborts after its end', async () => {
    const { gateway, sent } = startRecorded()
    const cancellation = new AbortController()
    await gateway.drain(upstreamAt(1), { timeoutMs: 0, signal: cancellation.signal })
    cancellation.abort()
    expect(sent.map(({ type }) => type)).toEqual(['request'])
  })
})
