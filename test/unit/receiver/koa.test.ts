import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import Router from '@koa/router'
import type Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { createReceiver, type EventOf, type ReceiverError } from '../../../receiver/src/index.ts'
import {
  clock,
  deployed,
  json,
  koaVersions,
  MAX_BODY,
  PATH,
  SECRET,
  said,
  serve,
  signedHeaders,
} from '../../harness/receiver/support.ts'

const body = json(deployed)
const headers = signedHeaders(body)

/** Resolves when the data that the socket receives from now on matches the pattern. */
async function received(socket: Socket, pattern: RegExp): Promise<void> {
  let data = ''
  while (!pattern.test(data)) data += String((await once(socket, 'data'))[0])
}

describe.each(koaVersions)('on %s', (_, KoaVersion) => {
  /** Starts an app with a receiver that records its handler's events and the errors of `onError`. */
  async function start({
    handler = (_event: EventOf<'deployment.succeeded'>): void | Promise<void> => {},
    before = (_app: Koa) => {},
  } = {}) {
    const handled: EventOf<'deployment.succeeded'>[] = []
    const errors: ReceiverError[] = []
    let told = () => {}
    const receiver = createReceiver({
      secrets: [SECRET],
      clock,
      onError: (error) => {
        errors.push(error)
        told()
      },
    })
    receiver.on('deployment.succeeded', async (event) => {
      handled.push(event)
      await handler(event)
    })
    const app = new KoaVersion()
    before(app)
    app.use(receiver.middleware({ path: PATH }))
    app.use((ctx) => {
      ctx.body = 'next'
    })
    const firstError = new Promise<void>((resolve) => {
      told = resolve
    })
    return Object.assign(await serve(app), { receiver, handled, errors, firstError })
  }

  it('answers 200 when the handler is done, and passes the envelope and the id to it', async () => {
    await using app = await start()
    const reply = await app.send(headers, [body])
    expect([reply.status, said(reply)]).toEqual([200, 'handled'])
    expect(reply.headers['content-type']).toMatch(/^application\/json/)
    expect(app.handled).toEqual([{ ...deployed, id: 'msg_1' }])
    expect(app.errors).toEqual([])
  })

  it('waits for the handler before it answers', async () => {
    const steps: string[] = []
    const handler = async () => {
      await new Promise((soon) => setImmediate(soon))
      steps.push('handled')
    }
    await using app = await start({ handler })
    await app.send(headers, [body])
    steps.push('answered')
    expect(steps).toEqual(['handled', 'answered'])
  })

  it('answers 200 to an event without a handler and to an unknown event', async () => {
    const app = new KoaVersion().use(createReceiver({ secrets: [SECRET], clock }).middleware({ path: PATH }))
    await using server = await serve(app)
    const unknown = json({ ...deployed, event: 'database.renamed', data: {} })
    for (const bytes of [body, unknown]) {
      const reply = await server.send(signedHeaders(bytes), [bytes])
      expect([reply.status, said(reply)]).toEqual([200, 'ignored'])
    }
  })

  it('assembles a body that arrives byte by byte, with and without a length', async () => {
    await using app = await start()
    const bytes = Array.from(body, (byte) => Buffer.from([byte]))
    for (const length of [{}, { 'content-length': body.length }]) {
      expect((await app.send({ ...headers, ...length }, bytes)).status).toBe(200)
    }
    expect(app.handled).toHaveLength(2)
  })

  it('reads a request that earlier middleware has paused', async () => {
    await using app = await start({
      before: (koa) =>
        koa.use((ctx, next) => {
          ctx.req.pause()
          return next()
        }),
    })
    expect((await app.send(headers, [body])).status).toBe(200)
  })

  it('requires its exact path and passes on requests for others', async () => {
    await using app = await start()
    expect((await app.send(headers, [body], { path: `${PATH}?x=1` })).status).toBe(200)
    for (const path of ['/', `${PATH}/`, `${PATH}/x`, PATH.toUpperCase()]) {
      expect((await app.send(headers, [body], { path })).text).toBe('next')
    }
    expect(app.handled).toHaveLength(1)
  })

  it.each(['GET', 'PUT', 'DELETE', 'OPTIONS'])('answers 405 to %s', async (method) => {
    await using app = await start()
    const reply = await app.send(headers, method === 'PUT' ? [body] : [], { method })
    expect([reply.status, reply.headers.allow, said(reply)]).toEqual([405, 'POST', 'method_not_allowed'])
    expect(app.handled).toEqual([])
  })

  it.each(Object.keys(headers))('answers 400 when %s is missing or sent twice', async (name) => {
    await using app = await start()
    const { [name as keyof typeof headers]: value, ...others } = headers
    const missing = await app.send(others, [body])
    expect([missing.status, said(missing)]).toEqual([400, 'missing_header'])
    const twice = await app.send({ ...others, [name]: [value, value] }, [body])
    expect([twice.status, said(twice)]).toEqual([400, 'duplicate_header'])
    expect(app.handled).toEqual([])
  })

  it('reads header names in any case, and a valid signature behind decoys', async () => {
    await using app = await start()
    const mixed = {
      'Webhook-ID': headers['webhook-id'],
      'WEBHOOK-TIMESTAMP': headers['webhook-timestamp'],
      'webhook-SIGNATURE': `v1, v1a,AAAA v1,${'A'.repeat(43)}= ${headers['webhook-signature']}`,
    }
    expect((await app.send(mixed, [body])).status).toBe(200)
  })

  it.each([
    ['a forged body', json({ ...deployed, data: {} }), headers, 'no_matching_signature'],
    ['a forged signature', body, { ...headers, 'webhook-signature': `v1,${'A'.repeat(43)}=` }, 'no_matching_signature'],
    ['a timestamp with junk', body, { ...headers, 'webhook-timestamp': '1760000000junk' }, 'bad_timestamp'],
    ['an old timestamp', body, signedHeaders(body, { timestamp: 1_759_999_699 }), 'timestamp_too_old'],
    ['a future timestamp', body, signedHeaders(body, { timestamp: 1_760_000_301 }), 'timestamp_too_new'],
    ['a signed body that is not UTF-8', Buffer.from([0xff]), signedHeaders(Buffer.from([0xff])), 'invalid_utf8'],
    ['a signed body that is not JSON', Buffer.from('{'), signedHeaders(Buffer.from('{')), 'invalid_json'],
    ['no body', Buffer.alloc(0), signedHeaders(Buffer.alloc(0)), 'invalid_json'],
    ['a signed body that is no event', Buffer.from('{}'), signedHeaders(Buffer.from('{}')), 'invalid_payload'],
  ])('answers 400 to %s, and no handler runs', async (_name, bytes, sent, code) => {
    await using app = await start()
    const reply = await app.send(sent, bytes.length > 0 ? [bytes] : [])
    expect([reply.status, said(reply)]).toEqual([400, code])
    expect(Object.keys(JSON.parse(reply.text).error)).toEqual(['code', 'message'])
    expect(app.errors.map((error) => error.code)).toEqual([code])
    expect(app.handled).toEqual([])
  })

  it('answers 400 to 1 MiB and one byte, with or without an announced length, and keeps the connection usable', async () => {
    await using app = await start()
    const tooLarge = Buffer.alloc(MAX_BODY + 1, 0x20)
    for (const length of [{}, { 'content-length': tooLarge.length }]) {
      const reply = await app.send({ ...signedHeaders(tooLarge), ...length }, [tooLarge])
      expect([reply.status, said(reply)]).toEqual([400, 'body_too_large'])
    }
    expect(app.handled).toEqual([])
  })

  it('answers before the body of a request with a too large length, then serves the next request', async () => {
    await using app = await start()
    const socket = connect(app.port, '127.0.0.1')
    const size = 3 * MAX_BODY
    socket.write(`POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: ${size}\r\n\r\n`)
    await received(socket, /^HTTP\/1\.1 400 .*body_too_large/s)
    socket.write(Buffer.alloc(size))
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await received(socket, /^HTTP\/1\.1 200 .*next$/s)
    socket.destroy()
  })

  it('answers while a body without a length is still arriving, then serves the next request', async () => {
    await using app = await start()
    const socket = connect(app.port, '127.0.0.1')
    const chunk = Buffer.alloc(2 * MAX_BODY)
    const piece = Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n')])
    socket.write(`POST ${PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`)
    socket.write(piece)
    await received(socket, /^HTTP\/1\.1 400 .*body_too_large/s)
    socket.write(piece)
    socket.write('0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await received(socket, /^HTTP\/1\.1 200 .*next$/s)
    socket.destroy()
  })

  it('survives a client that leaves in the middle of its body', async () => {
    // Koa itself emits an error on the app for every broken connection.
    await using app = await start({ before: (koa) => koa.on('error', () => {}) })
    const socket = connect(app.port, '127.0.0.1')
    await once(socket, 'connect')
    socket.write(`POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"event":`, () => socket.destroy())
    await app.firstError
    expect(app.errors.map((error) => error.code)).toEqual(['request_aborted'])
    expect((await app.send(headers, [body])).status).toBe(200)
  })

  it('answers 500 without details when the handler fails, and calls onError with the cause', async () => {
    const cause = new Error('password hunter2')
    await using app = await start({ handler: () => Promise.reject(cause) })
    const reply = await app.send(headers, [body])
    expect([reply.status, said(reply)]).toEqual([500, 'handler_failed'])
    expect(reply.text).not.toMatch(/hunter2|dep_1|\bat /)
    expect(app.errors[0]?.cause).toBe(cause)
  })

  it('answers 500 when the handler fails with an error that says 400', async () => {
    const handler = () => {
      throw Object.assign(new Error('refused'), { status: 400, expose: true })
    }
    await using app = await start({ handler })
    expect((await app.send(headers, [body])).status).toBe(500)
  })

  it('without a path handles all requests of its router, whatever the address', async () => {
    const handled: string[] = []
    const receiver = createReceiver({ secrets: [SECRET], clock })
    receiver.on('deployment.succeeded', ({ id }) => void handled.push(id))
    const router = new Router({ prefix: '/api' }).post('/hooks/:tenant', receiver.middleware())
    const app = new KoaVersion()
    app.use(router.routes())
    await using server = await serve(app)
    expect((await server.send(headers, [body], { path: '/api/hooks/shop' })).status).toBe(200)
    expect((await server.send(headers, [body], { path: '/hooks/shop' })).status).toBe(404)
    expect(handled).toEqual(['msg_1'])
  })

  it('emits only a failed handler on the app without onError, with the stack of its cause', async () => {
    const receiver = createReceiver({ secrets: [SECRET], clock })
    receiver.on('deployment.succeeded', () => {
      throw new Error('the disk is full')
    })
    const told: Error[] = []
    const app = new KoaVersion().use(receiver.middleware({ path: PATH }))
    app.on('error', (error: Error) => told.push(error))
    await using server = await serve(app)
    await server.send({}, [body])
    const reply = await server.send(headers, [body])
    expect(reply.status).toBe(500)
    expect(told).toHaveLength(1)
    expect(told[0]?.stack).toContain('the disk is full')
  })

  it('gives the same answer when onError itself fails, and emits that error on the app', async () => {
    const onError = () => Promise.reject(new Error('no log'))
    const told: Error[] = []
    const app = new KoaVersion().use(createReceiver({ secrets: [SECRET], clock, onError }).middleware({ path: PATH }))
    app.on('error', (error: Error) => told.push(error))
    await using server = await serve(app)
    const reply = await server.send({}, [body])
    expect([reply.status, said(reply)]).toEqual([400, 'missing_header'])
    expect(told[0]?.stack).toContain('no log')
  })

  it('answers 500 when the clock fails', async () => {
    const failing = () => {
      throw new Error('no time')
    }
    const errors: string[] = []
    const receiver = createReceiver({
      secrets: [SECRET],
      clock: failing,
      onError: (error) => void errors.push(error.code),
    })
    await using server = await serve(new KoaVersion().use(receiver.middleware({ path: PATH })))
    const reply = await server.send(headers, [body])
    expect([reply.status, said(reply)]).toEqual([500, 'internal_error'])
    expect(errors).toEqual(['internal_error'])
  })

  it('refuses a handler that is registered after the first request', async () => {
    const receiver = createReceiver({ secrets: [SECRET], clock })
    await using server = await serve(new KoaVersion().use(receiver.middleware({ path: PATH })))
    await server.send(headers, [body])
    expect(() => receiver.on('deployment.succeeded', () => {})).toThrow(/after the first request/)
  })
})
