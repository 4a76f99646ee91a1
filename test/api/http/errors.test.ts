import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { errorStatuses } from '../../../server/src/contract/errors.ts'
import { exchange, open } from '../../harness/raw.ts'
import { type OwnServer, ownServer } from '../../harness/server.ts'

let server: OwnServer
beforeAll(async () => {
  server = await ownServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const mebibyte = 1024 * 1024

/** Returns one request as bytes, for a connection that closes after it. */
function request(line: string, headers: Record<string, string> = {}, body: string | Uint8Array = ''): Buffer {
  const all = { host: 'fairlead', connection: 'close', authorization: `Bearer ${server.apiKey}`, ...headers }
  const fields = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.concat([Buffer.from(`${line} HTTP/1.1\r\n${fields.join('')}\r\n`), Buffer.from(body)])
}

const create = (body: string | Uint8Array, headers: Record<string, string> = {}) =>
  request(
    'POST /v1/projects',
    { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)), ...headers },
    body,
  )

/** Returns the only response in the received bytes. It must be the specification's error and reveal no internals. */
function errorIn(text: string) {
  const [, status, head = '', body = ''] = /^HTTP\/1\.1 (\d{3}) .*?\r\n(.*?)\r\n\r\n(.*)$/s.exec(text) ?? []
  expect(head).toMatch(/^content-type: application\/json; charset=utf-8\r?$/im)
  expect(head).toMatch(/^x-request-id: [\w\-=]{1,255}\r?$/im)
  expect(head).toMatch(/^x-content-type-options: nosniff\r?$/im)
  const { error, ...others } = JSON.parse(body)
  expect(others).toEqual({})
  expect(Object.keys(error)).toEqual(['code', 'message', 'details'])
  expect(errorStatuses).toHaveProperty(error.code, Number(status))
  expect(error.message).not.toMatch(/node_modules|\.ts|at \w+ \(|postgres|SyntaxError/i)
  expect(error.details).toEqual(expect.any(Object))
  return { status: Number(status), field: error.details.field as string | undefined }
}

const answered = async (bytes: string | Uint8Array) => errorIn(await exchange(server.url, bytes))

describe.concurrent('a body', () => {
  it.each<[string, string | Uint8Array, Record<string, string>, string | undefined]>([
    ['that is not JSON', '{"name":', {}, 'body'],
    ['that is a string', '"name"', {}, 'body'],
    ['that is null', 'null', {}, 'body'],
    ['that is an array', '[]', {}, 'body'],
    ['with a comma too many', '{"name":"a",}', {}, 'body'],
    ['that is blank', '   ', {}, 'body'],
    ['with a byte order mark', '\ufeff{"name":"a"}', {}, 'body'],
    ['in broken UTF-8', Buffer.from('{"name":"\xff"}', 'latin1'), {}, 'body'],
    ['in overlong UTF-8', Buffer.from('{"name":"\xc0\x80"}', 'latin1'), {}, 'body'],
    ['in UTF-16', Buffer.from('{"name":"a"}', 'utf16le'), {}, 'body'],
    ['with a NUL', '{"name":"a","region":"\\u0000"}', {}, 'region'],
    ['with a lone surrogate', '{"name":"\\ud800"}', {}, 'name'],
    ['with the same key twice', '{"name":"a","name":"b"}', {}, 'name'],
    ['with the same key twice, once escaped', '{"name":"a","\\u006eame":"b"}', {}, 'name'],
    ['with the same key twice deeper down', '{"name":"a","x":[{},{"y":1,"y":2}]}', {}, 'x.1.y'],
    ['with __proto__', '{"name":"a","__proto__":{"admin":true}}', {}, 'body'],
    ['with __proto__, escaped', '{"name":"a","__pr\\u006fto__":{}}', {}, 'body'],
    ['nested deeply', `{"name":"a","x":${'['.repeat(5000)}${']'.repeat(5000)}}`, {}, 'body'],
    ['nested as deeply as it may be large', '{"a":'.repeat(200_000), {}, 'body'],
    ['with a huge number', '{"name":1e999}', {}, 'name'],
    ['over 1 MiB', JSON.stringify({ name: 'a', pad: 'x'.repeat(mebibyte) }), {}, 'body'],
    ['of another media type', '{"name":"a"}', { 'content-type': 'text/plain' }, 'content-type'],
    ['of a form', 'name=a', { 'content-type': 'application/x-www-form-urlencoded' }, 'content-type'],
    ['of an invalid media type', '{"name":"a"}', { 'content-type': ';;' }, 'content-type'],
    ['in latin1', '{"name":"a"}', { 'content-type': 'application/json; charset=latin1' }, 'content-type'],
    ['that is compressed', '{"name":"a"}', { 'content-encoding': 'gzip' }, 'content-encoding'],
    ['compressed in an unknown way', '{"name":"a"}', { 'content-encoding': 'secret' }, 'content-encoding'],
  ])('%s is refused', async (_, body, headers, field) => {
    expect(await answered(create(body, headers))).toEqual({ status: 400, field })
  })

  it('without a media type is refused', async () => {
    const bytes = request('POST /v1/projects', { 'content-length': '12' }, '{"name":"a"}')
    expect(await answered(bytes)).toEqual({ status: 400, field: 'content-type' })
  })

  it('over 1 MiB is refused by its declared length, before it arrives', async () => {
    const headers = { 'content-type': 'application/json', 'content-length': String(mebibyte * 1000) }
    const socket = await open(server.url)
    socket.write(request('POST /v1/projects', { ...headers, connection: 'keep-alive' }))
    const [first] = (await once(socket, 'data')) as [Buffer]
    socket.destroy()
    expect(errorIn(first.toString())).toEqual({ status: 400, field: 'body' })
  })

  it('over 1 MiB in chunks is refused', async () => {
    const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`
    const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }
    const bytes = request('POST /v1/projects', headers, `${chunk.repeat(17)}0\r\n\r\n`)
    expect(await answered(bytes)).toEqual({ status: 400, field: 'body' })
  })

  const chunked = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }
  const inBytes = (body: string) => `${[...body].map((byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`

  it('in one-byte chunks is accepted when it is small, and refused with an error when it is large', async () => {
    const small = inBytes(JSON.stringify({ name: 'a'.repeat(90) }))
    expect(await exchange(server.url, request('POST /v1/projects', chunked, small))).toMatch(/^HTTP\/1.1 201 /)
    const large = inBytes('x'.repeat(100_000))
    const { id } = await server.client.projects.create({ body: { name: 'p' } })
    for (const [path, type] of [
      ['/v1/projects', 'application/json'],
      [`/v1/projects/${id}/sources`, 'application/x-git-bundle'],
      [`/v1/projects/${id}/storage/upload`, 'multipart/form-data; boundary=X'],
    ]) {
      const bytes = request(`POST ${path}`, { ...chunked, 'content-type': type ?? '' }, large)
      const answer = await exchange(server.url, bytes)
      expect(errorIn(answer)).toMatchObject({ status: 400 })
      expect(answer).toContain('comes in too many small chunks; send larger ones')
    }
  })

  it('in chunks, with a charset and an unusual case of the media type is accepted', async () => {
    const headers = { 'content-type': 'Application/JSON; charset="UTF-8"', 'transfer-encoding': 'chunked' }
    const bytes = request('POST /v1/projects', headers, `5\r\n{"nam\r\n7\r\ne":"a"}\r\n0\r\n\r\n`)
    expect(await exchange(server.url, bytes)).toMatch(/^HTTP\/1\.1 201 /)
  })

  it('keeps every character of a name', async () => {
    const name = 'Zoë 漢字 😀 \u2028'.trim()
    const text = await exchange(server.url, create(JSON.stringify({ name })))
    expect(Buffer.from(text, 'latin1').toString()).toContain(JSON.stringify(name))
  })

  it('may have unknown fields with any content', async () => {
    expect(await exchange(server.url, create('{"name":"a","x":"\\u0000\\ud800","constructor":1}'))).toMatch(/ 201 /)
  })

  it('gets an error with all of its problems', async () => {
    const project = await server.client.projects.create({ body: { name: 'p' } })
    const body = JSON.stringify({ git_url: 7, branch: 'a\0', env_vars: { '1': 'x', PORT: '1', GOOD: 2 } })
    const headers = { 'content-type': 'application/json', 'content-length': String(body.length) }
    const text = await exchange(server.url, request(`POST /v1/projects/${project.id}/deployments`, headers, body))
    const { error } = JSON.parse(text.slice(text.indexOf('{')))
    expect(error.details.field).toBe('name')
    const fields = error.details.errors.map(({ field }: { field: string }) => field)
    expect(fields).toEqual(expect.arrayContaining(['name', 'git_url', 'env_vars.1', 'env_vars.GOOD', 'branch']))
  })
})

describe('an address', () => {
  it.each([
    ['an unknown path', 'GET /v1/nothing', 404],
    ['a path outside the API', 'GET /nothing', 404],
    ['the bare prefix', 'GET /v1', 404],
    ['a wrong method', 'PUT /v1/projects', 404],
    ['an unknown method', 'PROPFIND /v1/projects', 404],
    ['OPTIONS', 'OPTIONS /v1/projects', 404],
    ['OPTIONS of everything', 'OPTIONS *', 404],
    ['TRACE', 'TRACE /v1/projects', 404],
    ['a broken percent encoding', 'GET /v1/projects/%', 404],
    ['broken UTF-8 in a path', 'GET /v1/projects/%ff', 404],
    ['a NUL in a path', 'GET /v1/projects/%00', 404],
    ['a NUL in a path below', 'GET /v1/projects/%00/deployments/%00', 404],
    ['a slash in an id', 'GET /v1/projects/proj_%2f..%2fx', 404],
    ['dots', 'GET /v1/../metrics', 404],
    ['a NUL in a query', 'GET /v1/projects?cursor=%00', 400],
    ['broken UTF-8 in a query', 'GET /v1/projects?limit=%ff', 400],
    ['a parameter given twice', 'GET /v1/projects?limit=1&limit=2', 400],
    ['an empty limit', 'GET /v1/projects?limit=', 400],
    ['a limit that is too large', 'GET /v1/projects?limit=1001', 400],
    ['a cursor that was never given', 'GET /v1/projects?cursor=x', 400],
    ['a very long path', `GET /v1/projects/${'x'.repeat(10_000)}`, 404],
  ])('%s is answered with the error body', async (_, line, status) => {
    expect((await answered(request(line))).status).toBe(status)
  })

  it('in absolute form, as sent to proxies, is treated as its path', async () => {
    expect(await exchange(server.url, request('GET http://elsewhere/v1/projects'))).toMatch(/^HTTP\/1\.1 200 /)
  })

  it('requested with HEAD is answered as with GET, without a body', async () => {
    const text = await exchange(server.url, request('HEAD /v1/projects'))
    expect(text).toMatch(/^HTTP\/1\.1 200 /)
    expect(text).toMatch(/\r\n\r\n$/)
    expect(await exchange(server.url, request('HEAD /v1/nothing'))).toMatch(/^HTTP\/1\.1 404 .*\r\n\r\n$/s)
  })
})

describe('a request that is not well-formed HTTP', () => {
  const raw = (...lines: string[]) => `${lines.join('\r\n')}\r\n\r\n`
  it.each([
    ['nonsense', 'nonsense\r\n\r\n', 400],
    ['unrequested HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['no Host', raw('GET /nothing HTTP/1.1', 'Connection: close'), 404],
    ['an unknown expectation', raw('GET / HTTP/1.1', 'Host: a', 'Expect: bogus', 'Connection: close'), 400],
    ['CONNECT', raw('CONNECT example.com:443 HTTP/1.1', 'Host: a'), 400],
    ['overlarge headers', raw('GET / HTTP/1.1', 'Host: a', `X: ${'x'.repeat(20_000)}`), 400],
    ['a length and chunks', raw('POST / HTTP/1.1', 'Host: a', 'Content-Length: 3', 'Transfer-Encoding: chunked'), 400],
    ['two lengths', raw('POST / HTTP/1.1', 'Host: a', 'Content-Length: 3', 'Content-Length: 4'), 400],
    ['a negative length', raw('POST / HTTP/1.1', 'Host: a', 'Content-Length: -3'), 400],
    ['an unknown coding', raw('POST / HTTP/1.1', 'Host: a', 'Transfer-Encoding: chunked, secret'), 400],
    ['a blank before a colon', raw('GET / HTTP/1.1', 'Host : a'), 400],
    ['a folded header', raw('GET / HTTP/1.1', 'Host: a', 'X: a', ' b'), 400],
    ['a NUL in a header', raw('GET / HTTP/1.1', 'Host: a', 'X: a\0b'), 400],
    ['a bare line feed', 'GET / HTTP/1.1\nHost: a\n\n', 400],
    ['a blank in the path', raw('GET /a b HTTP/1.1', 'Host: a'), 400],
  ])('%s is answered with the error body', async (_, bytes, status) => {
    expect((await answered(bytes)).status).toBe(status)
  })

  it('that asks for another protocol is answered in HTTP/1.1', async () => {
    const headers = { connection: 'Upgrade, close', upgrade: 'websocket' }
    expect((await answered(request('GET /nothing', headers))).status).toBe(404)
  })

  it('does not disturb the response to the previous request', async () => {
    const valid = request('GET /v1/projects', { connection: 'keep-alive' })
    const text = await exchange(server.url, Buffer.concat([valid, Buffer.from('nonsense\r\n\r\n')]))
    expect(text).toMatch(/^HTTP\/1\.1 200 /)
    expect(text).toContain('"projects":[')
  })
})

describe('a connection', () => {
  it('that breaks in the middle of a body leaves nothing behind, and the next one is served', async () => {
    const before = (await server.client.projects.list()).total
    const socket = await open(server.url)
    socket.write(create('{"name":"half"}').subarray(0, -5))
    const arrived = () => server.log.some((line) => line['path'] === '/v1/projects' && line['status'] === 400)
    server.log.length = 0
    socket.destroy()
    await expect.poll(arrived).toBe(true)
    expect((await server.client.projects.list()).total).toBe(before)
    expect(server.log.filter((line) => line['msg'] === 'request failed')).toEqual([])
  })

  it('whose client half-closes after the request gets the response, and is closed', async () => {
    const kept = { connection: 'keep-alive' }
    const read = exchange(server.url, request('GET /v1/projects', kept), { ends: true })
    const changed = exchange(server.url, create('{"name":"ended"}', kept), { ends: true })
    const unread = exchange(server.url, request('GET /nothing', kept), { ends: true })
    expect(await read).toMatch(/^HTTP\/1\.1 200 .*"projects":\[.*\}$/s)
    expect(await changed).toMatch(/^HTTP\/1\.1 201 .*"name":"ended".*\}$/s)
    expect(await unread).toMatch(/^HTTP\/1\.1 404 .*\}$/s)
    const incomplete = create('{"name":"half"}').subarray(0, -5)
    expect(errorIn(await exchange(server.url, incomplete, { ends: true })).status).toBe(400)
  })

  it.each([
    ['an empty chunk size', 'xyz\r\n'],
    ['an endless chunk', '1\r\n{}}'],
  ])('with %s in a body is answered with the error body', async (_, chunk) => {
    const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }
    expect((await answered(request('POST /v1/projects', headers, chunk))).status).toBe(400)
  })

  it('with a request that never completes is answered and closed', async () => {
    const slow = [
      Buffer.from('GET /v1/projects HTTP/1.1\r\nHost: a\r\nX-Slow: '),
      create('{"name":"slow"}', { connection: 'keep-alive' }).subarray(0, -3),
    ]
    const fields = await Promise.all(slow.map((bytes) => answered(bytes)))
    expect(fields).toEqual([
      { status: 400, field: undefined },
      { status: 400, field: 'body' },
    ])
  })

  it('carries one request after another, refused bodies included', async () => {
    const refused = create('{"name":7}', { connection: 'keep-alive' })
    const unknown = request('POST /v1/nothing', { connection: 'keep-alive', 'content-length': '5' }, 'abcde')
    const last = request('GET /v1/projects')
    const text = await exchange(server.url, Buffer.concat([refused, unknown, last]))
    expect([...text.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => status)).toEqual(['400', '404', '200'])
  })
})
