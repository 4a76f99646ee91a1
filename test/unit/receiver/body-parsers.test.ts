import type Koa from 'koa'
import { koaBody } from 'koa-body'
import { describe, expect, it } from 'vitest'
import { createReceiver } from '../../../receiver/src/index.ts'
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

type Layer = Koa.Middleware

/** Reads the body and stores it as `rawBody`, as parsers other than koa-body do. */
const storing =
  (convert: (bytes: Buffer) => unknown): Layer =>
  async (ctx, next) => {
    const chunks: Buffer[] = []
    for await (const chunk of ctx.req) chunks.push(chunk)
    Object.assign(ctx.request, { rawBody: convert(Buffer.concat(chunks)) })
    return next()
  }

const type = { 'content-type': 'application/json' }
const body = json(deployed)
const withName = (name: Uint8Array): Buffer => {
  const [before, after] = JSON.stringify(deployed).split('dep_1') as [string, string]
  return Buffer.concat([Buffer.from(before), name, Buffer.from(after)])
}

describe.each(koaVersions)('on %s, behind a layer that read the body', (_, KoaVersion) => {
  async function start(...layers: Layer[]) {
    const handled: string[] = []
    const receiver = createReceiver({ secrets: [SECRET], clock, onError: () => {} })
    receiver.on('deployment.succeeded', ({ data }) => void handled.push(data.deployment_id))
    const app = new KoaVersion()
    for (const layer of layers) app.use(layer)
    app.use(receiver.middleware({ path: PATH }))
    const server = await serve(app)
    const post = async (bytes: Uint8Array, { signed = bytes, headers = {} } = {}) => {
      const reply = await server.send({ ...type, ...signedHeaders(signed), ...headers }, [bytes])
      return [reply.status, said(reply), reply.text] as const
    }
    return Object.assign(server, { handled, post })
  }

  it('answers 500 with the remedy when koa-body stored no raw body, even to forged requests', async () => {
    await using app = await start(koaBody())
    for (const signed of [body, json({})]) {
      const [status, code, text] = await app.post(body, { signed })
      expect([status, code]).toEqual([500, 'body_consumed'])
      expect(text).toContain('before the body parser')
    }
    expect(app.handled).toEqual([])
  })

  it('verifies the text that koa-body stored with includeUnparsed, even beyond ASCII', async () => {
    await using app = await start(koaBody({ includeUnparsed: true }))
    const wide = withName(Buffer.from('漢字😀é'))
    for (const bytes of [body, wide]) {
      expect((await app.post(bytes, { headers: { 'content-length': bytes.length } }))[0]).toBe(200)
      expect((await app.post(bytes))[0]).toBe(200)
    }
    expect(app.handled).toEqual(['dep_1', 'dep_1', '漢字😀é', '漢字😀é'])
    expect((await app.post(body, { signed: wide })).slice(0, 2)).toEqual([400, 'no_matching_signature'])
  })

  it('verifies the body itself when the receiver is mounted before koa-body', async () => {
    const receiver = createReceiver({ secrets: [SECRET], clock })
    const app = new KoaVersion().use(receiver.middleware({ path: PATH })).use(koaBody())
    app.use((ctx) => {
      ctx.body = ctx.request.body
    })
    await using server = await serve(app)
    expect((await server.send({ ...type, ...signedHeaders(body) }, [body])).status).toBe(200)
    expect((await server.send(type, [body], { path: '/other' })).text).toBe(body.toString())
  })

  it.each([
    ['one byte', Buffer.from([0xff])],
    ['a cut character, as long as its replacement', Buffer.from('😀').subarray(0, 3)],
  ])('refuses decoded text in place of bytes that were not UTF-8: %s', async (_name, invalid) => {
    const bytes = withName(invalid)
    const replaced = Buffer.from(bytes.toString())
    for (const layer of [koaBody({ includeUnparsed: true }), storing(String)]) {
      await using app = await start(layer)
      for (const signed of [bytes, replaced]) {
        for (const headers of [{}, { 'content-length': bytes.length }]) {
          expect((await app.post(bytes, { signed, headers })).slice(0, 2)).toEqual([500, 'body_consumed'])
        }
      }
      expect(app.handled).toEqual([])
    }
  })

  it('refuses decoded text that is shorter or longer than the sent text', async () => {
    const marked = Buffer.concat([Buffer.from('\uFEFF'), body])
    const stripped = storing((bytes) => new TextDecoder().decode(bytes))
    for (const [layer, bytes] of [
      [stripped, marked],
      [storing((sent) => sent.toString('latin1')), withName(Buffer.from('é'))],
    ] as const) {
      await using app = await start(layer)
      const refused = await app.post(bytes, { signed: body, headers: { 'content-length': bytes.length } })
      expect(refused.slice(0, 2)).toEqual([500, 'body_consumed'])
    }
  })

  it('refuses a stored byte order mark, as it refuses one in the request', async () => {
    await using app = await start(storing(String))
    const marked = Buffer.concat([Buffer.from('\uFEFF'), body])
    expect((await app.post(marked)).slice(0, 2)).toEqual([400, 'invalid_json'])
  })

  it('accepts stored bytes of any content', async () => {
    await using app = await start(storing((bytes) => bytes))
    expect((await app.post(body))[0]).toBe(200)
    expect((await app.post(Buffer.from([0xff]))).slice(0, 2)).toEqual([400, 'invalid_utf8'])
    expect((await app.post(Buffer.alloc(MAX_BODY + 1))).slice(0, 2)).toEqual([400, 'body_too_large'])
  })

  it.each<[string, Layer]>([
    [
      'read to its end and dropped',
      async (ctx, next) => {
        for await (const _chunk of ctx.req);
        return next()
      },
    ],
    [
      'read in part',
      async (ctx, next) => {
        await new Promise((read) => ctx.req.once('data', read))
        ctx.req.pause()
        return next()
      },
    ],
    [
      'turned into text',
      (ctx, next) => {
        ctx.req.setEncoding('utf8')
        return next()
      },
    ],
    [
      'waited for by another listener',
      (ctx, next) => {
        ctx.req.on('readable', () => {})
        return next()
      },
    ],
    ['parsed into an object', storing((bytes) => JSON.parse(bytes.toString()))],
  ])('answers 500 to a body that was %s', async (_name, layer) => {
    await using app = await start(layer)
    expect((await app.post(body)).slice(0, 2)).toEqual([500, 'body_consumed'])
    expect(app.handled).toEqual([])
  })
})
