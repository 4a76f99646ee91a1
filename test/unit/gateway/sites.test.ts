import {
  cp,
  mkdir,
  mkdtemp,
  readdir,
  realpath,
  rename,
  rm,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RefusedEndpoint, Upstream } from '../../../server/src/gateway/client.ts'
import {
  createScope,
  rawClient,
  startApp,
  startGateway,
  type TestGateway,
  textOf,
  upstreamAt,
} from '../../harness/gateway/harness.ts'
import { freePort } from '../../harness/ports.ts'
import { fixturePath } from '../../harness/runtimes/support.ts'
import { prefix } from '../../harness/temporary.ts'

const BIG = 32 * 1024 * 1024

let directory: string
let port: number
let gateway: TestGateway['gateway']
const scope = createScope()

/** A release that is the static site in a folder. */
const siteIn = (folder: string, deploymentId = 'dep_site'): Upstream => ({ deploymentId, endpoints: [{ folder }] })

/** The literal path: `fetch` would normalise it. */
function ask(path: string, headers: Record<string, string> = {}, method = 'GET') {
  return new Promise<{ status: number; headers: Record<string, unknown>; body: string }>((resolve, reject) => {
    const request = get({ host: '127.0.0.1', port, path, headers, method, agent: false }, (response) => {
      let body = ''
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }))
    })
    request.on('error', reject)
  })
}

beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), prefix)))
  const site = join(directory, 'site')
  await cp(fixturePath('static-site'), site, { recursive: true })
  await writeFile(join(directory, 'outside.txt'), 'outside')
  await symlink('../outside.txt', join(site, 'leak.txt'))
  await symlink('..', join(site, 'up'))
  await symlink('.private', join(site, 'exposed.txt'))
  await symlink('digits.txt', join(site, 'alias.txt'))
  await writeFile(join(site, 'odd.constructor'), 'odd')
  await writeFile(join(site, 'empty.txt'), '')
  await writeFile(join(site, 'ä b.txt'), 'named')
  await writeFile(join(site, 'big.bin'), '')
  await truncate(join(site, 'big.bin'), BIG)
  const started = await startGateway(scope, { upstream: siteIn(site) })
  port = started.port
  gateway = started.gateway
})
afterAll(async () => {
  await scope.end()
  await rm(directory, { recursive: true, force: true })
})

describe('a path', () => {
  test.each([
    ['/', 200, '<p>home</p>'],
    ['/index.html', 200, '<p>home</p>'],
    ['/?query=1', 200, '<p>home</p>'],
    ['/about', 200, '<p>about</p>'],
    ['/docs/', 200, '<p>documents</p>'],
    ['/alias.txt', 200, '0123456789'],
    ['/%C3%A4%20b.txt', 200, 'named'],
    ['/empty.txt', 200, ''],
    ['/.well-known/security.txt', 200, 'Contact'],
    ['/missing', 404, '<p>nothing here</p>'],
    ['/digits.txt/', 404, '<p>nothing here</p>'],
    ['/.private', 404, '<p>nothing here</p>'],
    ['/exposed.txt', 404, '<p>nothing here</p>'],
    ['/leak.txt', 404, '<p>nothing here</p>'],
    ['/up/outside.txt', 404, '<p>nothing here</p>'],
    ['/up/site/digits.txt', 200, '0123456789'],
    ['/../outside.txt', 404, '<p>nothing here</p>'],
    ['/%2e%2e/outside.txt', 404, '<p>nothing here</p>'],
    ['/docs/..%2f..%2foutside.txt', 400, 'Bad Request'],
    ['/%ff', 400, 'Bad Request'],
    ['/a%00b', 400, 'Bad Request'],
  ])('%s answers %i', async (path, status, body) => {
    const answer = await ask(path)
    expect(answer.status).toBe(status)
    expect(answer.body).toContain(body)
  })

  test('of a folder leads to the folder, and never to another site', async () => {
    expect(await ask('/docs?a=b')).toMatchObject({ status: 301, headers: { location: '/docs/?a=b' } })
    expect(await ask('//docs')).toMatchObject({ status: 301, headers: { location: '/docs/' } })
  })

  test.each([
    ['/', 'text/html; charset=utf-8'],
    ['/digits.txt', 'text/plain; charset=utf-8'],
    ['/odd.constructor', 'application/octet-stream'],
    ['/big.bin', 'application/octet-stream'],
  ])('%s is of type %s', async (path, type) => {
    expect((await ask(path, {}, 'HEAD')).headers).toMatchObject({ 'content-type': type })
  })

  test('answers only GET and HEAD', async () => {
    expect(await ask('/digits.txt', {}, 'HEAD')).toMatchObject({
      status: 200,
      headers: { 'content-length': '11' },
      body: '',
    })
    expect(await ask('/digits.txt', {}, 'POST')).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD' } })
  })
})

describe('a file that the visitor has', () => {
  test('is not sent again', async () => {
    const { headers } = await ask('/digits.txt')
    const { etag, 'last-modified': modified } = headers as Record<string, string>
    for (const tag of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      expect(await ask('/digits.txt', { 'if-none-match': String(tag) })).toMatchObject({ status: 304, body: '' })
    }
    expect((await ask('/digits.txt', { 'if-modified-since': String(modified) })).status).toBe(304)
    expect(
      (await ask('/digits.txt', { 'if-none-match': '"other"', 'if-modified-since': String(modified) })).status,
    ).toBe(200)
    expect((await ask('/missing', { 'if-none-match': '*' })).status).toBe(404)
  })

  test('is sent again after a rollback, where it is older than the copy', async () => {
    const { headers } = await ask('/digits.txt')
    const later = new Date(Date.parse(String(headers['last-modified'])) + 3_600_000).toUTCString()
    expect((await ask('/digits.txt', { 'if-modified-since': later })).body).toBe('0123456789\n')
  })

  test('differs from another release’s file by its content, not by its size and time', async () => {
    const packed = new Date('1985-10-26T08:15:00Z')
    const [first, second] = [join(directory, 'first'), join(directory, 'second')]
    for (const folder of [first, second]) {
      await mkdir(folder)
      await writeFile(join(folder, 'lib.js'), `var a = ${folder === first ? 1 : 2}`)
      await utimes(join(folder, 'lib.js'), packed, packed)
    }
    const own = await openSiteApp('versions', first)
    const { etag } = (await begin('/lib.js', own)).resume().headers
    const asking = async (headers: Record<string, string>) => {
      const answer = await begin('/lib.js', own, headers)
      return [answer.statusCode, await textOf(answer)]
    }
    expect(await asking({ 'if-none-match': String(etag) })).toEqual([304, ''])
    await gateway.route('versions', siteIn(second, 'dep_second'))
    expect(await asking({ 'if-none-match': String(etag) })).toEqual([200, 'var a = 2'])
    expect(await asking({ range: 'bytes=4-', 'if-range': String(etag) })).toEqual([200, 'var a = 2'])
    expect(await asking({ range: 'bytes=4-', 'if-match': String(etag) })).toEqual([412, 'Precondition Failed\n'])
    await gateway.route('versions', siteIn(first, 'dep_first'))
    expect(await asking({ 'if-none-match': String(etag) })).toEqual([304, ''])
  })
})

describe('a range', () => {
  test.each([
    ['bytes=0-3', 206, '0123', 'bytes 0-3/11'],
    ['bytes=0-0', 206, '0', 'bytes 0-0/11'],
    ['bytes=8-', 206, '89\n', 'bytes 8-10/11'],
    ['bytes=-2', 206, '9\n', 'bytes 9-10/11'],
    ['bytes=-100', 206, '0123456789\n', 'bytes 0-10/11'],
    ['bytes=5-100', 206, '56789\n', 'bytes 5-10/11'],
    ['bytes=11-', 416, 'Range Not Satisfiable\n', 'bytes */11'],
    ['bytes=-0', 416, 'Range Not Satisfiable\n', 'bytes */11'],
    ['bytes=5-2', 200, '0123456789\n', undefined],
    ['bytes=0-1,3-4', 200, '0123456789\n', undefined],
    ['lines=1-2', 200, '0123456789\n', undefined],
    ['bytes=-', 200, '0123456789\n', undefined],
  ])('%s answers %i', async (range, status, body, contentRange) => {
    const answer = await ask('/digits.txt', { range })
    expect(answer).toMatchObject({ status, body })
    expect(answer.headers['content-range']).toBe(contentRange)
  })

  test('applies only to GET', async () => {
    const answer = await ask('/digits.txt', { range: 'bytes=0-3' }, 'HEAD')
    expect(answer).toMatchObject({ status: 200, headers: { 'content-length': '11' } })
    expect(answer.headers['content-range']).toBeUndefined()
  })

  test('applies only to the version that the visitor has a part of', async () => {
    const { headers } = await ask('/digits.txt')
    const range = 'bytes=0-3'
    expect((await ask('/digits.txt', { range, 'if-range': String(headers['etag']) })).status).toBe(206)
    expect((await ask('/digits.txt', { range, 'if-range': '"older"' })).status).toBe(200)
  })
})

/** Opens a new app, routed to the site in the folder. Resolves with its port. */
async function openSiteApp(appId: string, folder: string): Promise<number> {
  const own = await freePort()
  await gateway.open(appId, { port: own })
  await gateway.route(appId, siteIn(folder, `dep_${appId}`))
  scope.defer(() => gateway.close(appId))
  return own
}

/** Requests a path, and resolves with the response before its body is read. */
const begin = (path: string, on = port, headers: Record<string, string> = {}): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port: on, path, headers, agent: false }, resolve).on('error', reject)
  })

test('names the release that answers, and counts requests and errors', async () => {
  await gateway.takeTraffic()
  const counted = { requests: 0, errors: 0 }
  expect((await ask('/')).headers).toMatchObject({ 'x-fairlead-deployment': 'dep_site' })
  await ask('/missing')
  // The first count may be taken between the two requests.
  const take = async () => {
    for (const { appId, requests, errors } of await gateway.takeTraffic()) {
      expect(appId).toBe('app')
      counted.requests += requests
      counted.errors += errors
    }
    return counted
  }
  await expect.poll(take).toEqual({ requests: 2, errors: 0 })
})

test('answers several requests on one connection, with and without a body, and in HTTP/1.0', async () => {
  const client = await rawClient(scope, port)
  client.socket.write(
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /digits.txt HTTP/1.1\r\nHost: a\r\n\r\nGET http://b/about HTTP/1.0\r\n\r\n',
  )
  const all = await client.closed()
  expect(all.match(/HTTP\/1\.1 (\d+)/g)).toEqual(['HTTP/1.1 405', 'HTTP/1.1 200', 'HTTP/1.1 200'])
})

test('refuses a request of ambiguous length as for every app', async () => {
  const client = await rawClient(scope, port)
  client.socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd')
  expect(await client.closed()).toContain('HTTP/1.1 400')
})

test('visitors who leave early leave no open file behind', async () => {
  const open = async () => (await readdir('/proc/self/fd')).length
  const before = await open()
  for (let visit = 0; visit < 20; visit += 1) {
    const answer = await begin('/big.bin')
    await new Promise((resolve) => answer.once('data', resolve))
    answer.destroy()
  }
  await expect.poll(open).toBeLessThanOrEqual(before)
})

test('a download continues while the site loses the address and its files are removed, and the drain waits for it', async () => {
  const folder = join(directory, 'leaving')
  await mkdir(folder)
  await writeFile(join(folder, 'big.bin'), '')
  await truncate(join(folder, 'big.bin'), BIG)
  const own = await openSiteApp('leaving', folder)
  const answer = await begin('/big.bin', own)
  const upstream = gateway.current('leaving') as Upstream
  await gateway.route('leaving', null)
  let isDrained = false
  const drained = gateway.drain(upstream, { timeoutMs: 60_000 }).then(() => {
    isDrained = true
  })
  await rm(folder, { recursive: true })
  expect(isDrained).toBe(false)
  let received = 0
  for await (const chunk of answer) received += (chunk as Buffer).length
  expect(received).toBe(BIG)
  await drained
})

test('a file that shrinks while it is sent cuts the connection', async () => {
  const folder = join(directory, 'shrinking')
  await mkdir(folder)
  await writeFile(join(folder, 'big.bin'), '')
  await truncate(join(folder, 'big.bin'), BIG)
  const answer = await begin('/big.bin', await openSiteApp('shrinking', folder))
  await truncate(join(folder, 'big.bin'), 10)
  await expect(answer.toArray()).rejects.toThrow('aborted')
})

test('an unreadable folder answers 503 and is reported once, until a new route', async () => {
  const folder = join(directory, 'away')
  await mkdir(folder)
  await writeFile(join(folder, 'index.html'), 'here')
  const own = await openSiteApp('away', folder)
  const reports: RefusedEndpoint[] = []
  scope.defer(gateway.onRefused((refused) => void reports.push(refused)))
  const status = async () => (await begin('/', own)).resume().statusCode
  expect([await status(), await gateway.probe({ folder }, '/')]).toEqual([200, 200])
  await rename(folder, `${folder}.moved`)
  expect([await status(), await status(), await gateway.probe({ folder }, '/')]).toEqual([503, 503, 503])
  await expect.poll(() => reports).toEqual([{ appId: 'away', deploymentId: 'dep_away', endpoint: { folder } }])
  await rename(`${folder}.moved`, folder)
  expect(await status()).toBe(200)
})

test('a request whose app has just become a site is answered from the site', async () => {
  const own = await freePort()
  const app = await startApp(scope, (_, res) => res.end('app'))
  await gateway.open('becoming', { port: own })
  scope.defer(() => gateway.close('becoming'))
  await gateway.route('becoming', app.upstream)
  expect((await begin('/', own)).resume().headers['x-fairlead-deployment']).toBe(app.upstream.deploymentId)
  await gateway.route('becoming', upstreamAt(await freePort()))
  const refused = new Promise<void>((resolve) => scope.defer(gateway.onRefused(() => resolve())))
  expect((await begin('/', own)).resume().statusCode).toBe(502)
  await refused
  await gateway.route('becoming', siteIn(join(directory, 'site')))
  expect((await begin('/', own)).resume().statusCode).toBe(200)
})

test('a folder that is repeatedly swapped for a link never leads outside', async () => {
  const folder = join(directory, 'racing')
  const outside = join(directory, 'racing-outside')
  for (const [at, text] of [
    [join(folder, 'real'), 'inside'],
    [outside, 'outside'],
  ] as const) {
    await mkdir(at, { recursive: true })
    await writeFile(join(at, 'file.txt'), text)
  }
  await symlink(outside, join(folder, 'link'))
  const own = await openSiteApp('racing', folder)
  let isOver = false
  const racing = (async () => {
    while (!isOver) {
      await rename(join(folder, 'real'), join(folder, 'dir'))
      await rename(join(folder, 'dir'), join(folder, 'real'))
      await rename(join(folder, 'link'), join(folder, 'dir'))
      await rename(join(folder, 'dir'), join(folder, 'link'))
    }
  })()
  const bodies = new Set<string>()
  for (let round = 0; round < 40; round += 1) {
    const answers = await Promise.all(Array.from({ length: 10 }, () => begin('/dir/file.txt', own)))
    for (const answer of answers) bodies.add((await answer.toArray()).join(''))
  }
  isOver = true
  await racing
  expect([...bodies].filter((body) => !['inside', 'Not Found\n'].includes(body))).toEqual([])
})
