import { lstat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import type { GatewayProcess } from '../../../server/src/gateway/gateway.ts'
import { type EdgeGateway, from, pemOf, questionOf, startEdge } from '../../harness/gateway/edge.ts'
import { ask, createScope, rawClient, startApp } from '../../harness/gateway/harness.ts'
import { startLoad } from '../../harness/gateway/load.ts'
import { ended, openTunnel, running } from '../../harness/gateway/program.ts'

const scope = createScope()
afterEach(() => scope.end())

const challenge = '/.well-known/acme-challenge/token'

/** Gives a gateway names, certificates and a response. */
async function furnish(gateway: GatewayProcess): Promise<void> {
  await gateway.name('app', [
    { hostname: 'www.test', redirectTo: 'shop.test' },
    { hostname: 'shop.test', redirectTo: null },
    { hostname: '*.wild.test', redirectTo: null },
  ])
  await gateway.name('unopened', [{ hostname: 'unopened.test', redirectTo: null }])
  await gateway.certify('shop.test', pemOf('shop'))
  await gateway.certify('*.wild.test', pemOf('wild'))
  await gateway.answerAt(challenge, 'proof')
}

/** All responses of a furnished gateway; null for an unreachable address. */
async function answersOf({ edge, questions }: EdgeGateway) {
  const text = async (place: string, host: string, path: string) => {
    const answer = await ask(place, { path, headers: from(host) }).catch(() => null)
    return answer && (answer.headers.location ?? answer.body)
  }
  return Promise.all([
    text(edge, 'a.example', '/'),
    text(edge, 'shop.test', '/'),
    text(edge, 'any.wild.test', '/'),
    text(edge, 'www.test', '/x'),
    text(edge, 'unknown.test', challenge),
    text(questions, '', questionOf('shop.test')),
    text(questions, '', questionOf('any.wild.test')),
    text(questions, '', questionOf('unopened.test')),
  ])
}

const everything = ['hi', 'hi', 'hi', 'https://shop.test/x', 'proof', pemOf('shop'), pemOf('wild'), '']

it.each([1, 2])(
  'by a newer version loses no request of the edge, with %i workers, nor its names, certificates and responses',
  { timeout: 400_000 },
  async (workers) => {
    const at = await startEdge(scope, { workers })
    await furnish(at.gateway)
    const old = await running(at.dataDirectory)
    const tunnels = await Promise.all(Array.from({ length: 20 }, () => openTunnel(scope, at.edge, from('shop.test'))))
    const load = startLoad(scope, at.edge, { headers: from('any.wild.test') })
    await load.more(2_000)
    const retireMs = 5_000
    const next = await at.connect({ epoch: 2, version: '2.0.0', workers, retireMs })
    expect((await running(at.dataDirectory)).pid).not.toBe(old.pid)
    expect(await answersOf(at)).toEqual(everything)
    expect(next.names()).toEqual(at.gateway.names())
    expect(next.certificates()).toEqual(at.gateway.certificates())
    expect(next.answers()).toEqual([challenge])
    for (const tunnel of tunnels) expect(await tunnel.say('there')).toBe('hi there')
    await load.more(5_000)
    await next.name('app', [{ hostname: '*.wild.test', redirectTo: null }])
    await load.more(2_000)
    await load.stop()
    expect(load.failures).toEqual([])
    await Promise.all(tunnels.map(({ closed }) => closed))
    await ended(old)
    expect((await ask(at.edge, { headers: from('any.wild.test') })).body).toBe('hi')
  },
)

it('loses no request of the edge when it is repeated', { timeout: 400_000 }, async () => {
  const at = await startEdge(scope)
  const load = startLoad(scope, at.edge, { headers: from('a.example') })
  for (let version = 2; version < 7; version += 1) {
    await load.more(500)
    await at.connect({ epoch: version, version: `${version}.0.0`, retireMs: 1_000 })
  }
  await load.more(500)
  await load.stop()
  expect(load.failures).toEqual([])
})

it('sends changes to the replaced gateway, which still serves kept connections', async () => {
  const at = await startEdge(scope)
  const arrived = Promise.withResolvers<() => void>()
  const held = await startApp(scope, (_, res) => arrived.resolve(() => res.end('held')))
  await at.gateway.route('app', held.upstream)
  const answer = ask(at.edge, { headers: from('a.example') })
  const finish = await arrived.promise
  const [kept, other] = [await rawClient(scope, at.edge), await rawClient(scope, at.edge)]
  const next = await at.connect({ epoch: 2, version: '2.0.0', retireMs: 2 ** 30 })
  await next.name('app', [{ hostname: 'late.test', redirectTo: 'a.example' }])
  await next.answerAt(challenge, 'late')
  kept.socket.write('GET / HTTP/1.1\r\nHost: late.test\r\n\r\n')
  expect(await kept.until('Location: https://a.example/')).toMatch(/connection: close/i)
  await kept.closed()
  other.socket.write(`GET ${challenge} HTTP/1.1\r\nHost: late.test\r\n\r\n`)
  await other.until('late')
  await other.closed()
  finish()
  expect((await answer).body).toBe('held')
})

it('leaves waiting questions, and questions on kept connections, to the new gateway', async () => {
  const at = await startEdge(scope)
  const told: string[] = []
  at.gateway.onUncertified((name) => told.push(name))
  const waiting = ask(at.questions, { path: questionOf('a.example') })
  await expect.poll(() => told).toEqual(['a.example'])
  const kept = await rawClient(scope, at.questions)
  const old = await running(at.dataDirectory)
  const next = await at.connect({ epoch: 2, version: '2.0.0', retireMs: 0 })
  const toldNext: string[] = []
  next.onUncertified((name) => toldNext.push(name))
  kept.socket.write(`GET ${questionOf('fairlead.example')} HTTP/1.1\r\nHost: a\r\n\r\n`)
  await expect.poll(() => toldNext).toContain('fairlead.example')
  await next.certify('a.example', pemOf('a'))
  await next.certify('fairlead.example', pemOf('dashboard'))
  expect((await waiting).body).toBe(pemOf('a'))
  expect(await kept.until('dashboard')).toMatch(/connection: close/i)
  await kept.closed()
  await ended(old)
})

it('by a gateway without an edge ends the edge’s access, and by one with an edge begins it', async () => {
  const at = await startEdge(scope, { edge: null })
  await furnish(at.gateway)
  const isThere = (path: string) =>
    lstat(path).then(
      () => true,
      () => false,
    )
  expect([await isThere(at.edge), await isThere(at.questions)]).toEqual([false, false])
  const edge = { hosts: [], httpsPort: 443 }
  const next = await at.connect({ epoch: 2, edge, retireMs: 0 })
  expect((await ask(at.edge, { headers: from('a.example') })).body).toBe('hi')
  await furnish(next)
  expect(await answersOf(at)).toEqual(everything)
  const old = await running(at.dataDirectory)
  await at.connect({ epoch: 3, edge: null, retireMs: 0 })
  await ended(old)
  expect([await isThere(at.edge), await isThere(at.questions)]).toEqual([false, false])
  expect((await ask(at.port, { headers: from('a.example') })).body).toBe('hi')
})

it.each([1, 2])('a killed gateway is back with everything, with %i workers', async (workers) => {
  const at = await startEdge(scope, { workers })
  await furnish(at.gateway)
  const first = await running(at.dataDirectory)
  process.kill(first.pid, 'SIGKILL')
  await ended(first)
  await expect.poll(() => answersOf(at)).toEqual(everything)
  expect((await running(at.dataDirectory)).pid).not.toBe(first.pid)
})

it('the edge reaches a killed gateway only when it knows all apps and names', async () => {
  const at = await startEdge(scope)
  await furnish(at.gateway)
  const names = Array.from({ length: 2_000 }, (_, index) => ({ hostname: `n${index}.test`, redirectTo: null }))
  await at.gateway.name('app', names)
  const first = await running(at.dataDirectory)
  process.kill(first.pid, 'SIGKILL')
  await ended(first)
  const statuses = new Set<number>()
  const reached = async () => {
    const answer = await ask(at.edge, { headers: from('n1999.test') }).catch(() => null)
    if (answer !== null) statuses.add(answer.status)
    return answer !== null
  }
  await expect.poll(reached, { interval: 1 }).toBe(true)
  expect([...statuses]).toEqual([200])
})

it('an adopted gateway continues with its certificates, and tells the next server their names', async () => {
  const at = await startEdge(scope)
  await furnish(at.gateway)
  const { pid } = await running(at.dataDirectory)
  at.gateway.leave()
  const next = await at.connect({ epoch: 2 })
  expect((await running(at.dataDirectory)).pid).toBe(pid)
  expect(await answersOf(at)).toEqual(everything)
  expect(next.names()).toEqual(at.gateway.names())
  expect([...next.certificates()].sort()).toEqual(['*.wild.test', 'shop.test'])
  expect(next.answers()).toEqual([challenge])
  await next.listen()
  await next.certify('shop.test', pemOf('newer'))
  await next.name('app', [{ hostname: 'shop.test', redirectTo: null }])
  process.kill(pid, 'SIGKILL')
  const shown = () =>
    ask(at.questions, { path: questionOf('shop.test') }).then(
      ({ body }) => body,
      () => null,
    )
  await expect.poll(shown).toBe(pemOf('newer'))
  expect((await ask(at.edge, { headers: from('shop.test') })).body).toBe('hi')
  expect((await ask(at.edge, { headers: from('www.test') })).status).toBe(404)
  // The next gateway cannot get what the adopted one received from an earlier server.
  expect((await ask(at.edge, { path: challenge, headers: from('shop.test') })).body).toBe('hi')
})

it('only the gateway’s user can reach the sockets for the edge', async () => {
  const at = await startEdge(scope)
  for (const path of [at.edge, at.questions]) expect((await lstat(path)).mode & 0o777).toBe(0o600)
  expect((await lstat(dirname(at.edge))).mode & 0o777).toBe(0o700)
})
