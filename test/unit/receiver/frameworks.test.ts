import { createServer, type RequestListener } from 'node:http'
import { bodyParser as currentBodyParser } from '@koa/bodyparser'
import express from 'express'
import { Hono } from 'hono'
import { koaBody } from 'koa-body'
import formerBodyParser from 'koa-bodyparser'
import { describe, expect, it } from 'vitest'
import { createReceiver } from '../../../receiver/src/index.ts'
import { postWebhook, signWebhook } from '../../../receiver/src/testing.ts'
import { clock, koaVersions, OTHER_SECRET, PATH, SECRET } from '../../harness/receiver/support.ts'

const webhook = { event: 'ping', data: { webhook_id: '漢字😀' } } as const
const genuine = signWebhook({ ...webhook, secret: SECRET, clock })
const forged = signWebhook({ ...webhook, secret: OTHER_SECRET, clock })

function start() {
  const handled: string[] = []
  const receiver = createReceiver({ secrets: [SECRET], clock, onError: () => {} })
  receiver.on('ping', ({ data }) => void handled.push(data.webhook_id))
  return { receiver, handled }
}

const handledAnswer = { status: 200, body: { outcome: 'handled' } }
const forgedAnswer = { status: 400, body: { error: { code: 'no_matching_signature' } } }

describe('Express', () => {
  const mount = (receiver: ReturnType<typeof start>['receiver'], ...before: express.RequestHandler[]) => {
    const app = express()
    for (const handler of before) app.use(handler)
    app.post(PATH, express.raw({ type: () => true, limit: '1mb' }), async (req, res) => {
      const { status, headers, body } = await receiver.receive(req.headersDistinct, req.body)
      res.status(status).set(headers).json(body)
    })
    return app
  }

  it('works with the raw bytes of express.raw()', async () => {
    const { receiver, handled } = start()
    const app = mount(receiver)
    expect(await postWebhook(app, PATH, genuine)).toMatchObject(handledAnswer)
    expect(await postWebhook(app, PATH, forged)).toMatchObject(forgedAnswer)
    expect(handled).toEqual([webhook.data.webhook_id])
  })

  it('gets the remedy when express.json() came first', async () => {
    const { receiver, handled } = start()
    const answer = await postWebhook(mount(receiver, express.json()), PATH, genuine)
    expect(answer).toMatchObject({
      status: 500,
      body: { error: { code: 'not_raw_bytes', message: expect.stringContaining('express.raw(') } },
    })
    expect(handled).toEqual([])
  })
})

describe('Hono', () => {
  it('works with the untouched request', async () => {
    const { receiver, handled } = start()
    const app = new Hono()
    app.post(PATH, (c) => receiver.handle(c.req.raw))
    // By calling its fetch, and through a real server.
    expect(await postWebhook({ fetch: (request) => app.fetch(request) }, PATH, genuine)).toMatchObject(handledAnswer)
    const { getRequestListener } = await import('@hono/node-server')
    const listener: RequestListener = getRequestListener(app.fetch)
    expect(await postWebhook(listener, PATH, genuine)).toMatchObject(handledAnswer)
    expect(await postWebhook(listener, PATH, forged)).toMatchObject(forgedAnswer)
    expect(handled).toHaveLength(2)
  })
})

describe('node:http', () => {
  it('works with bytes that were collected by hand', async () => {
    const { receiver } = start()
    const server = createServer(async (req, res) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk)
      const { status, headers, body } = await receiver.receive(req.headersDistinct, Buffer.concat(chunks))
      res.writeHead(status, headers).end(JSON.stringify(body))
    })
    const listener: RequestListener = (req, res) => void server.emit('request', req, res)
    expect((await postWebhook(listener, PATH, genuine)).status).toBe(200)
  })
})

describe.each(koaVersions)('%s', (_, KoaVersion) => {
  it.each([
    ['koa-body with includeUnparsed', () => koaBody({ includeUnparsed: true })],
    ['@koa/bodyparser', () => currentBodyParser()],
    ['koa-bodyparser', () => formerBodyParser()],
  ])('is served behind %s', async (_name, parser) => {
    const { receiver, handled } = start()
    const app = new KoaVersion()
    app.use(parser())
    app.use(receiver.middleware({ path: PATH }))
    expect(await postWebhook(app, PATH, genuine)).toMatchObject(handledAnswer)
    expect(await postWebhook(app, PATH, forged)).toMatchObject(forgedAnswer)
    expect(handled).toEqual([webhook.data.webhook_id])
  })

  it('works behind a parser that stores the text as koa-body did up to version 6', async () => {
    const { receiver } = start()
    const app = new KoaVersion()
    app.use(async (ctx, next) => {
      const chunks: Buffer[] = []
      for await (const chunk of ctx.req) chunks.push(chunk)
      const text = Buffer.concat(chunks).toString()
      Object.assign(ctx.request, { body: Object.assign(JSON.parse(text), { [Symbol.for('unparsedBody')]: text }) })
      return next()
    })
    app.use(receiver.middleware({ path: PATH }))
    expect(await postWebhook(app, PATH, genuine)).toMatchObject(handledAnswer)
  })

  it('names koa-body and the remedy when koa-body stored nothing', async () => {
    const { receiver, handled } = start()
    const app = new KoaVersion()
    app.use(koaBody())
    app.use(receiver.middleware({ path: PATH }))
    const { status, body } = await postWebhook(app, PATH, genuine)
    expect(status).toBe(500)
    expect(JSON.stringify(body)).toMatch(/koa-body.*Mount the receiver before.*includeUnparsed/)
    expect(handled).toEqual([])
  })

  it('asks for an early retry while a copy is being handled', async () => {
    const receiver = createReceiver({ secrets: [SECRET], clock, dedupe: { claim: async () => ({ state: 'busy' }) } })
    receiver.on('ping', () => {})
    const app = new KoaVersion()
    app.use(receiver.middleware({ path: PATH }))
    const answer = await postWebhook(app, PATH, genuine)
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5'])
  })
})

it.each([{}, { server: true }])(
  'refuses to post to a value that is no app, and says which part of Fastify to pass: %j',
  async (app) => {
    await expect(postWebhook(app as never, PATH, genuine)).rejects.toThrow(
      /nor a request listener. With Fastify, pass app.routing/,
    )
  },
)
