import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type EdgeGateway, pemOf, questionOf, startEdge } from '../../harness/gateway/edge.ts'
import { type Answer, ask, createScope, rawClient } from '../../harness/gateway/harness.ts'
import { running } from '../../harness/gateway/program.ts'

const scope = createScope()
let at: EdgeGateway
beforeEach(async () => {
  at = await startEdge(scope)
})
afterEach(() => scope.end())

const question = (name: string): Promise<Answer> => ask(at.questions, { path: questionOf(name) })

/** Retries while the queue of the socket has no room for another connection. */
const patientQuestion = async (name: string): Promise<Answer> => {
  for (;;) {
    const answer = await question(name).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EAGAIN') throw error
    })
    if (answer !== undefined) return answer
    await sleep(10)
  }
}

/** The names that the server hears of. */
function told(gateway = at.gateway): string[] {
  const names: string[] = []
  gateway.onUncertified((name) => names.push(name))
  return names
}

describe('a question for a certificate', () => {
  it('is answered with the certificate of the name, or otherwise of its wildcard', async () => {
    const names = told()
    await at.gateway.name('app', [
      { hostname: '*.shop.test', redirectTo: null },
      { hostname: 'two.labels.shop.test', redirectTo: null },
    ])
    await at.gateway.certify('*.shop.test', pemOf('wildcard'))
    await at.gateway.certify('b.shop.test', pemOf('b'))
    await at.gateway.certify('fairlead.example', pemOf('dashboard'))
    const answer = await question('a.shop.test')
    expect([answer.status, answer.body]).toEqual([200, pemOf('wildcard')])
    expect((await question('B.Shop.test.')).body).toBe(pemOf('b'))
    expect((await question('fairlead.example')).body).toBe(pemOf('dashboard'))
    const ofTwo = question('two.labels.shop.test')
    await expect.poll(() => names).toEqual(['two.labels.shop.test'])
    await at.gateway.certify('two.labels.shop.test', pemOf('two'))
    expect((await ofTwo).body).toBe(pemOf('two'))
    expect(at.gateway.certificates()).toHaveLength(4)
  })

  it('waits for the certificate of a served name, and the server hears of it once', async () => {
    const names = told()
    const asking = Array.from({ length: 20 }, () => question('a.example'))
    const other = question('fairlead.example')
    await expect.poll(() => names).toEqual(['a.example', 'fairlead.example'])
    await at.gateway.certify('a.example', pemOf('a'))
    const answers = await Promise.all(asking)
    expect(new Set(answers.map(({ status, body }) => `${status} ${body}`))).toEqual(new Set([`200 ${pemOf('a')}`]))
    await at.gateway.certify('fairlead.example', pemOf('dashboard'))
    expect((await other).body).toBe(pemOf('dashboard'))
    expect(names).toEqual(['a.example', 'fairlead.example'])
  })

  it('for one of many names of a wildcard reports the wildcard, and its certificate answers all', async () => {
    const names = told()
    await at.gateway.name('app', [{ hostname: '*.shop.test', redirectTo: null }])
    const asking = Array.from({ length: 50 }, (_, index) => question(`name${index}.shop.test`))
    await expect.poll(() => names).toEqual(['*.shop.test'])
    await at.gateway.certify('*.shop.test', pemOf('wildcard'))
    expect(new Set((await Promise.all(asking)).map(({ body }) => body))).toEqual(new Set([pemOf('wildcard')]))
    expect(names).toEqual(['*.shop.test'])
  })

  it('is answered with none as soon as the name has no owner, and its certificate is no longer shown', async () => {
    const names = told()
    await at.gateway.name('app', [
      { hostname: 'waits.test', redirectTo: null },
      { hostname: 'has.test', redirectTo: null },
    ])
    await at.gateway.certify('has.test', pemOf('has'))
    await at.gateway.certify('a.example', pemOf('a'))
    const asking = question('waits.test')
    await expect.poll(() => names).toEqual(['waits.test'])
    await at.gateway.name('app', [])
    expect((await asking).status).toBe(204)
    expect((await question('has.test')).status).toBe(204)
    expect((await question('a.example')).status).toBe(200)
    await at.gateway.close('app')
    expect((await question('a.example')).status).toBe(204)
  })

  it('waits again after the removal of a certificate, and gets the next one', async () => {
    const names = told()
    await at.gateway.certify('a.example', pemOf('first'))
    await at.gateway.certify('a.example', null)
    const asking = question('a.example')
    await expect.poll(() => names).toEqual(['a.example'])
    await at.gateway.certify('a.example', pemOf('second'))
    expect((await asking).body).toBe(pemOf('second'))
  })

  it('that waits is passed to the next server, which may answer it', async () => {
    const names = told()
    const asking = question('a.example')
    await expect.poll(() => names).toEqual(['a.example'])
    at.gateway.leave()
    const unheard = question('fairlead.example')
    const next = await at.connect({ epoch: 2 })
    const toldNext = told(next)
    await next.certify('a.example', pemOf('a'))
    expect((await asking).body).toBe(pemOf('a'))
    // Reported during the connection, or asked again.
    const again = question('fairlead.example')
    await next.certify('fairlead.example', pemOf('dashboard'))
    expect([(await unheard).body, (await again).body]).toEqual([pemOf('dashboard'), pemOf('dashboard')])
    expect(toldNext.filter((name) => name === 'a.example').length).toBeLessThanOrEqual(1)
  })
})

const hostile = [
  ['that is missing', ''],
  ['that is empty', '?server_name='],
  ['of 60 KiB', `?server_name=${'a'.repeat(60 * 1024)}`],
  ['of 60 KiB, escaped', `?server_name=${'%00'.repeat(60 * 1024)}`],
  ['with a zero byte', '?server_name=a.example%00.evil.test'],
  ['with a zero byte at its end', '?server_name=a.example%00'],
  ['that is a wildcard', '?server_name=*.shop.test'],
  ['with a wildcard in it', '?server_name=a*.shop.test'],
  ['that is an IPv4 address', '?server_name=127.0.0.1'],
  ['that is an IPv6 address', '?server_name=%5B::1%5D'],
  ['that is given twice', '?server_name=a.example&server_name=a.example'],
  ['with a port', '?server_name=a.example:443'],
  ['with a space', '?server_name=a.example%20'],
  ['with two dots at its end', '?server_name=a.example..'],
  ['with an empty label', '?server_name=.shop.test'],
  ['with a letter that looks like one of it', '?server_name=%E2%84%AA.shop.test'],
  ['with bytes that are no text', '?server_name=%ff%fe.shop.test'],
  ['with half of an escape', '?server_name=a.example%'],
  ['of a label that is too long', `?server_name=${'a'.repeat(64)}.shop.test`],
] as const

describe('a question for a name that is not served', () => {
  it('is answered at once, cheaply, and without a report: ten thousand of them', { timeout: 200_000 }, async () => {
    const names = told()
    const client = await rawClient(scope, at.questions)
    let text = ''
    client.socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
    })
    const count = 10_000
    for (let index = 0; index < count; index += 1)
      client.socket.write(`GET ${questionOf(`n${index}.evil.test`)} HTTP/1.1\r\nHost: a\r\n\r\n`)
    const answers = () => text.split('HTTP/1.1 204').length - 1
    while (answers() < count) await once(client.socket, 'data')
    expect(text.split('HTTP/1.1 ').length - 1).toBe(count)
    // By the time of this response the server would have heard of it.
    const asking = question('a.example')
    await expect.poll(() => names).toEqual(['a.example'])
    await at.gateway.certify('a.example', pemOf('a'))
    await asking
  })

  it('that may be hostile is answered with none', async () => {
    const names = told()
    await at.gateway.name('app', [
      { hostname: '*.shop.test', redirectTo: null },
      { hostname: 'k.shop.test', redirectTo: null },
    ])
    await at.gateway.open('address', { hostname: '127.0.0.1' })
    for (const name of ['*.shop.test', 'a.example']) await at.gateway.certify(name, pemOf(name))
    for (const [what, path] of hostile)
      expect([what, (await ask(at.questions, { path: `/certificate${path}` })).status]).toEqual([what, 204])
    expect((await question('a.example')).status).toBe(200)
    expect(names).toEqual([])
  })
})

it('the limit of waiting questions is per app: further ones are answered at once, other apps’ questions wait', async () => {
  const names = told()
  await at.gateway.name('app', [{ hostname: '*.shop.test', redirectTo: null }])
  await at.gateway.open('other', { hostname: 'other.example' })
  const answered: number[] = []
  const flood = (name: string, count: number) =>
    Array.from({ length: count }, () => patientQuestion(name).then(({ status }) => void answered.push(status)))
  const all = flood('one.shop.test', 100)
  for (let index = 0; index < 1_000; index += 1) all.push(...flood(`n${index}.shop.test`, 1))
  await expect.poll(() => answered).toEqual(Array(1_100 - 128).fill(204))
  const other = question('other.example')
  await expect.poll(() => names).toEqual(['*.shop.test', 'other.example'])
  await at.gateway.certify('*.shop.test', pemOf('wildcard'))
  await Promise.all(all)
  expect(answered.filter((status) => status === 200)).toHaveLength(128)
  await at.gateway.certify('other.example', pemOf('other'))
  expect((await other).body).toBe(pemOf('other'))
})

it('a question whose client has gone stops waiting', async () => {
  const names = told()
  const clients = await Promise.all(Array.from({ length: 128 }, () => rawClient(scope, at.questions)))
  for (const { socket } of clients) socket.write(`GET ${questionOf('a.example')} HTTP/1.1\r\nHost: a\r\n\r\n`)
  await expect.poll(() => names).toEqual(['a.example'])
  await expect.poll(async () => (await Promise.race([question('a.example'), soon()]))?.status).toBe(204)
  for (const { socket } of clients) socket.destroy()
  const waiting = expect.poll(async () => (await Promise.race([question('a.example'), soon()]))?.status)
  await waiting.toBe(undefined)
})

/** Resolves when all pending questions could have been answered. */
const soon = (): Promise<undefined> => new Promise((resolve) => setTimeout(() => resolve(undefined), 500))

it('the edge may never obtain a certificate itself, and nothing else is answered', async () => {
  const statusOf = async (path: string, method = 'GET') => (await ask(at.questions, { path, method })).status
  expect(await statusOf('/ask?domain=a.example')).toBe(403)
  expect(await statusOf('/ask')).toBe(403)
  for (const path of ['/', '/certificate/', '//', '/CERTIFICATE?server_name=a.example', 'http://['])
    expect([path, await statusOf(path)]).toEqual([path, 404])
  expect(await statusOf(questionOf('a.example'), 'POST')).toBe(404)
})

it('the gateway’s state contains no key', async () => {
  await at.gateway.certify('a.example', pemOf('secret'))
  const { socket, until } = await rawClient(scope, at.edge.replace('edge.sock', 'gateway.sock'))
  socket.write('{"type":"status"}\n')
  expect(await until('\n')).toContain('"certificates":["a.example"]')
  expect(await until('\n')).not.toContain('secret')
  expect((await running(at.dataDirectory)).pid).toBeGreaterThan(0)
})
