import { expect, it } from 'vitest'
import { createGateway } from '../../harness/gateway/channel.ts'
import { ask, createScope, HOST, silent, startApp } from '../../harness/gateway/harness.ts'
import { freePort } from '../../harness/ports.ts'

/** A gateway whose messages are recorded in transit. */
function recordedGateway() {
  const messages: unknown[] = []
  const options = { log: silent, host: HOST, apps: { mode: 'ports' }, isTrustedProxy: () => false } as const
  return { gateway: createGateway(options, (message) => messages.push(message)), messages }
}

it('carries only plain data, which survives JSON', async () => {
  const scope = createScope()
  const { gateway, messages } = recordedGateway()
  const { upstream, stop } = await startApp(scope, (_, res) => res.end('hi'))
  const port = await freePort()
  await gateway.listen()
  await gateway.open('app', { port })
  await expect(gateway.open('other', { port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  await gateway.route('app', upstream)
  await ask(port)
  await stop()
  expect((await ask(port)).status).toBe(502)
  await gateway.route('app', null)
  await gateway.drain(upstream, { timeoutMs: 0, signal: AbortSignal.abort() })
  expect(await gateway.takeTraffic()).toMatchObject([{ appId: 'app', requests: 2, errors: 1 }])
  await gateway.close('app')
  await gateway.stop({ timeoutMs: 0 })

  const types = new Set(messages.map((message) => (message as { type: string }).type))
  expect([...types].sort()).toEqual(['cancel', 'failure', 'refused', 'reply', 'request'])
  for (const message of messages) expect(JSON.parse(JSON.stringify(message))).toEqual(message)
  await scope.end()
})

it('confirms a route only when the switch is made', async () => {
  const scope = createScope()
  const { gateway } = recordedGateway()
  const [old, next] = [
    await startApp(scope, (_, res) => res.end('old')),
    await startApp(scope, (_, res) => res.end('new')),
  ]
  const port = await freePort()
  await gateway.open('app', { port })
  await gateway.route('app', old.upstream)
  expect((await ask(port)).body).toBe('old')
  const switching = gateway.route('app', next.upstream)
  expect(gateway.current('app')).toEqual(old.upstream)
  expect(await switching).toEqual(old.upstream)
  expect(gateway.current('app')).toEqual(next.upstream)
  expect((await ask(port)).body).toBe('new')
  await gateway.stop({ timeoutMs: 0 })
  await scope.end()
})

it('counts the requests that it finished after its stop', async () => {
  const scope = createScope()
  const { gateway } = recordedGateway()
  const { upstream } = await startApp(scope, (_, res) => res.end('hi'))
  const port = await freePort()
  await gateway.open('app', { port })
  await gateway.route('app', upstream)
  await ask(port)
  await gateway.stop({ timeoutMs: 1_000 })
  expect(await gateway.takeTraffic()).toMatchObject([{ appId: 'app', requests: 1, errors: 0 }])
  await scope.end()
})
