import { createHash } from 'node:crypto'
import { readdir, readlink, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type OwnServer, ownServer } from '../harness/server.ts'
import { upload } from '../harness/storage.ts'

const content = 'abcdefghijklmnopqrstuvwxyz'
const etag = `"${createHash('sha256').update(content).digest('hex')}"`

let server: OwnServer
let projectId: string
let url: string
let uploadedAt: string
beforeAll(async () => {
  server = await ownServer()
  projectId = (await server.client.projects.create({ body: { name: 'Downloads' } })).id
  const made = await upload(server.client, projectId, 'alphabet.html', content, 'text/html')
  url = made.url
  uploadedAt = made.uploaded_at
})
afterAll(() => server[Symbol.asyncDispose]())

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: string
}

/** Requests without `fetch`, which adds and removes headers. */
function ask(headers: Record<string, string> = {}, method = 'GET', address = url): Promise<Answer> {
  return new Promise((done, fail) => {
    request(address, { method, headers, agent: false }, async (response) => {
      const body = Buffer.concat(await response.toArray()).toString()
      done({ status: response.statusCode ?? 0, headers: response.headers as Answer['headers'], body })
    })
      .on('error', fail)
      .end()
  })
}

describe('the address of a file', () => {
  it('serves the file as a sandboxed attachment', async () => {
    const { status, headers, body } = await ask()
    expect(status).toBe(200)
    expect(body).toBe(content)
    expect(headers).toMatchObject({
      'content-type': 'text/html',
      'content-length': '26',
      'content-disposition': 'attachment; filename="alphabet.html"',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "sandbox; default-src 'none'",
      'cross-origin-resource-policy': 'cross-origin',
      'cache-control': 'private, no-cache',
      'accept-ranges': 'bytes',
      'last-modified': new Date(uploadedAt).toUTCString(),
      etag,
    })
    expect(headers['set-cookie']).toBeUndefined()
  })

  it('answers HEAD with the same headers and no body, even with a range', async () => {
    const { headers: whole } = await ask()
    const { status, headers, body } = await ask({ range: 'bytes=0-1' }, 'HEAD')
    expect([status, body]).toEqual([200, ''])
    const facts = ({ date, connection, 'x-request-id': id, ...rest }: Answer['headers']) => rest
    expect(facts(headers)).toEqual(facts(whole))
  })

  it.each([
    ['bytes=0-0', 206, 'a', 'bytes 0-0/26'],
    ['bytes=5-9', 206, 'fghij', 'bytes 5-9/26'],
    ['bytes=20-', 206, 'uvwxyz', 'bytes 20-25/26'],
    ['bytes=-3', 206, 'xyz', 'bytes 23-25/26'],
    ['bytes=-100', 206, content, 'bytes 0-25/26'],
    ['bytes=20-99999999999999999999', 206, 'uvwxyz', 'bytes 20-25/26'],
    ['bytes=26-', 416, '', 'bytes */26'],
    ['bytes=-0', 416, '', 'bytes */26'],
    ['bytes=0-1,5-6', 200, content, undefined],
    ['bytes=9-5', 200, content, undefined],
    ['bytes=-', 200, content, undefined],
    ['bytes=x', 200, content, undefined],
    ['lines=0-1', 200, content, undefined],
  ])('answers the range %s with %i', async (range, status, body, contentRange) => {
    const answer = await ask({ range })
    expect([answer.status, answer.body, answer.headers['content-range']]).toEqual([status, body, contentRange])
  })

  const past = 'Mon, 01 Jan 2024 00:00:00 GMT'
  const future = 'Fri, 01 Jan 2100 00:00:00 GMT'
  it.each<[Record<string, string>, number]>([
    [{ 'if-none-match': etag }, 304],
    [{ 'if-none-match': `"other", W/${etag}` }, 304],
    [{ 'if-none-match': '*' }, 304],
    [{ 'if-none-match': '"other"' }, 200],
    [{ 'if-none-match': '"other"', 'if-modified-since': future }, 200],
    [{ 'if-modified-since': future }, 304],
    [{ 'if-modified-since': past }, 200],
    [{ 'if-match': etag }, 200],
    [{ 'if-match': '*' }, 200],
    [{ 'if-match': `W/${etag}` }, 412],
    [{ 'if-match': '"other"' }, 412],
    [{ 'if-unmodified-since': past }, 412],
    [{ 'if-unmodified-since': future }, 200],
    [{ range: 'bytes=0-1', 'if-range': etag }, 206],
    [{ range: 'bytes=0-1', 'if-range': '"other"' }, 200],
    [{ range: 'bytes=0-1', 'if-range': `W/${etag}` }, 200],
    [{ range: 'bytes=0-1', 'if-range': future }, 200],
    [{ range: 'bytes=0-1', 'if-range': past }, 200],
  ])('answers %j with %i', async (headers, status) => {
    const answer = await ask(headers)
    expect(answer.status).toBe(status)
    if (status >= 300) expect(answer.body).toBe('')
    if (status === 304) expect(answer.headers['etag']).toBe(etag)
  })

  it('is the only one: every similar path is 404', async () => {
    const [, , , , id = '', token = ''] = url.split('/')
    const other = await upload(server.client, projectId, 'other', 'other')
    const near = [
      '/files',
      '/files/',
      `/files/${id}`,
      `/files/${id}/`,
      `/files/${id}/${token}/`,
      `/files/${id}/${token.slice(0, -1)}`,
      `/files/${id}/${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`,
      `/files/${id}/${token}x`,
      `/files/${other.id}/${token}`,
      `/files/${id}/%00`,
      `/files/../files/${id}/${'x'.repeat(5000)}`,
      `/files/${'file_00000000000000000000000000'}/${token}`,
      `/files/nonsense/${token}`,
    ]
    for (const path of near) expect((await ask({}, 'GET', server.url + path)).status, path).toBe(404)
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) expect((await ask({}, method)).status).toBe(404)
  })

  it('does not appear in the log', async () => {
    await ask()
    const token = url.split('/').at(-1) ?? ''
    expect(JSON.stringify(server.log)).not.toContain(token)
    expect(server.log.some(({ path }) => String(path).startsWith('/files/file_'))).toBe(true)
  })

  it('is stored encrypted', async () => {
    const token = url.split('/').at(-1) ?? ''
    const rows = await server.database.query<{ token: Buffer }>('select token from files')
    for (const row of rows) expect(row.token.toString('latin1')).not.toContain(token)
  })

  it('is different for each upload of the same bytes', async () => {
    const one = await upload(server.client, projectId, 'a', 'same')
    const two = await upload(server.client, projectId, 'a', 'same')
    expect(one.url.split('/').at(-1)).not.toBe(two.url.split('/').at(-1))
  })

  it('leaves no file open after aborted downloads', async () => {
    const big = await upload(server.client, projectId, 'big', 'x'.repeat(5_000_000))
    for (let round = 0; round < 20; round++) {
      await new Promise<void>((done, fail) => {
        request(big.url, { agent: false }, (response) =>
          response.once('data', () => response.destroy()).once('close', done),
        )
          .on('error', fail)
          .end()
      })
    }
    const open = async () => {
      const targets = await Promise.all(
        (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
      )
      return targets.filter((target) => target.endsWith(big.id))
    }
    await expect.poll(open).toEqual([])
  })

  it('reports a missing file in the log, and not to the client', async () => {
    const lost = await upload(server.client, projectId, 'lost', 'x')
    await rm(join(server.dataDirectory, 'files', lost.id.slice(-2), lost.id))
    const answer = await ask({}, 'GET', lost.url)
    expect(answer.status).toBe(500)
    expect(answer.body).not.toContain(server.dataDirectory)
    expect(server.log.some(({ err }) => JSON.stringify(err ?? {}).includes(lost.id))).toBe(true)
  })
})

it('serves empty files, also to range requests', async () => {
  const empty = await upload(server.client, projectId, 'empty', '')
  expect(await ask({}, 'GET', empty.url)).toMatchObject({ status: 200, body: '', headers: { 'content-length': '0' } })
  expect(await ask({}, 'HEAD', empty.url)).toMatchObject({ status: 200, headers: { 'content-length': '0' } })
  expect(await ask({ range: 'bytes=0-' }, 'GET', empty.url)).toMatchObject({ status: 416 })
})

it('accepts the date of the file as its validator', async () => {
  const date = new Date(uploadedAt).toUTCString()
  expect((await ask({ range: 'bytes=0-1', 'if-range': date })).status).toBe(206)
  expect((await ask({ 'if-modified-since': date })).status).toBe(304)
  expect((await ask({ 'if-unmodified-since': date })).status).toBe(200)
})

describe('a server with another public address', () => {
  it('gives addresses of the public origin', async () => {
    await using behind = await ownServer({ FAIRLEAD_PUBLIC_URL: 'https://fairlead.example.com/' })
    const project = await behind.client.projects.create({ body: { name: 'p' } })
    const made = await upload(behind.client, project.id, 'a', 'x')
    expect(made.url).toMatch(/^https:\/\/fairlead\.example\.com\/files\//)
    expect(await (await fetch(behind.url + new URL(made.url).pathname)).text()).toBe('x')
  })

  it('combines the public host with the port that it listens on', async () => {
    await using behind = await ownServer({ FAIRLEAD_PUBLIC_HOST: 'files.example.com' })
    const project = await behind.client.projects.create({ body: { name: 'p' } })
    const { url: address } = await upload(behind.client, project.id, 'a', 'x')
    expect(new URL(address).host).toBe(`files.example.com:${new URL(behind.url).port}`)
  })
})
