import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, readdir, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { freePort } from '../harness/ports.ts'
import { fixturePath } from './support.ts'

const PROGRAM = fileURLToPath(new URL('../../server/src/runtimes/process/static-server/main.ts', import.meta.url))
const BIG = 32 * 1024 * 1024

let directory: string
let server: ChildProcess
let port: number

async function serve(folder: string, on: number): Promise<ChildProcess> {
  const child = spawn(process.execPath, [PROGRAM, folder, String(on)], {
    cwd: directory,
    env: {},
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return child
}

/** As it is written: a path that `fetch` would tidy up, too. */
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
  directory = await mkdtemp(join(tmpdir(), 'fairlead-static-'))
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
  port = await freePort()
  server = await serve('site', port)
})
afterAll(async () => {
  server.kill('SIGKILL')
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

  test('answers GET and HEAD alone', async () => {
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

  test('counts only for the version that the visitor has a part of', async () => {
    const { headers } = await ask('/digits.txt')
    const range = 'bytes=0-3'
    expect((await ask('/digits.txt', { range, 'if-range': String(headers['etag']) })).status).toBe(206)
    expect((await ask('/digits.txt', { range, 'if-range': '"older"' })).status).toBe(200)
  })
})

test('visitors who leave early leave no open file behind', async () => {
  const open = async () => (await readdir(`/proc/${server.pid}/fd`)).length
  const before = await open()
  for (let visit = 0; visit < 20; visit += 1) {
    await new Promise<void>((resolve, reject) => {
      const request = get({ host: '127.0.0.1', port, path: '/big.bin', agent: false }, (response) => {
        response.once('data', () => {
          request.destroy()
          resolve()
        })
      })
      request.once('error', reject)
    })
  }
  await vi.waitFor(async () => expect(await open()).toBeLessThanOrEqual(before), 20_000)
})

test('SIGTERM lets running answers finish, refuses new ones, and ends the program', async () => {
  const own = await freePort()
  const child = await serve('site', own)
  const exited = once(child, 'exit')
  const idle = createConnection(own, '127.0.0.1')
  await once(idle, 'connect')
  const bytes = await new Promise<number>((resolve, reject) => {
    const request = get({ host: '127.0.0.1', port: own, path: '/big.bin' }, (response) => {
      let received = 0
      response.on('data', (chunk: Buffer) => {
        received += chunk.length
      })
      response.once('data', async () => {
        response.pause()
        child.kill('SIGTERM')
        await vi.waitFor(() => expect(refused(own)).resolves.toBe(true), 20_000)
        response.resume()
      })
      response.once('end', () => resolve(received))
    })
    request.once('error', reject)
  })
  expect(bytes).toBe(BIG)
  expect(await exited).toEqual([0, null])
  idle.destroy()
})

function refused(on: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createConnection(on, '127.0.0.1')
    probe.once('error', () => resolve(true))
    probe.once('connect', () => {
      probe.destroy()
      resolve(false)
    })
  })
}

test('without a folder or a port it says how it is used', async () => {
  const child = spawn(process.execPath, [PROGRAM], { env: {}, stdio: ['ignore', 'ignore', 'pipe'] })
  const [[text], [code]] = await Promise.all([once(child.stderr, 'data'), once(child, 'exit')])
  expect(String(text)).toContain('usage')
  expect(code).toBe(2)
})
