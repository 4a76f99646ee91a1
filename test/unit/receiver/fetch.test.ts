import { describe, expect, it, vi } from 'vitest'
import { createReceiver } from '../../../receiver/src/index.ts'
import { signWebhook } from '../../../receiver/src/testing.ts'
import { clock, MAX_BODY, SECRET } from '../../harness/receiver/support.ts'

const data = { webhook_id: 'wh_1' }
const { headers, body } = signWebhook({ event: 'ping', data, secret: SECRET, clock })

const url = 'http://localhost/hooks'
const posted = (
  bytes: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null = body,
  sent: Record<string, string> = headers,
) => new Request(url, { method: 'POST', headers: sent, body: bytes, ...{ duplex: 'half' } })

const streamOf = (...chunks: Uint8Array[]) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk)
      controller.close()
    },
  })

function start() {
  const handled: string[] = []
  const receiver = createReceiver({ secrets: [SECRET], clock, onError: () => {} })
  receiver.on('ping', ({ data: { webhook_id } }) => void handled.push(webhook_id))
  const ask = async (request: Request) => {
    const response = await receiver.handle(request)
    const { outcome, error } = JSON.parse(await response.text())
    return [response.status, outcome ?? error.code]
  }
  return { receiver, handled, ask }
}

describe('handle', () => {
  it('answers a genuine webhook, complete or in parts', async () => {
    const { ask, handled } = start()
    expect(await ask(posted())).toEqual([200, 'handled'])
    expect(await ask(posted(streamOf(body.subarray(0, 9), body.subarray(9))))).toEqual([200, 'handled'])
    expect(handled).toEqual(['wh_1', 'wh_1'])
  })

  it('refuses a forged body, a missing one, and another method', async () => {
    const { ask, handled, receiver } = start()
    expect(await ask(posted(Buffer.from('{}')))).toEqual([400, 'no_matching_signature'])
    expect(await ask(posted(null))).toEqual([400, 'no_matching_signature'])
    expect(await ask(posted(body, {}))).toEqual([400, 'missing_header'])
    const get = await receiver.handle(new Request(url))
    expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST'])
    expect(handled).toEqual([])
  })

  it('refuses a repeated header', async () => {
    const { ask } = start()
    for (const [name, code] of [
      ['webhook-id', 'no_matching_signature'],
      ['webhook-timestamp', 'bad_timestamp'],
    ] as const) {
      const repeated = new Headers(headers)
      repeated.append(name, headers[name])
      expect(await ask(new Request(url, { method: 'POST', headers: repeated, body }))).toEqual([400, code])
    }
  })

  it('reads no more than 1 MiB, with or without an announced length', async () => {
    const { ask } = start()
    let pulled = 0
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled++
        controller.enqueue(new Uint8Array(MAX_BODY / 4))
      },
    })
    expect(await ask(posted(endless))).toEqual([400, 'body_too_large'])
    expect(pulled).toBeLessThan(10)
    expect(await ask(posted(body, { ...headers, 'content-length': String(MAX_BODY + 1) }))).toEqual([
      400,
      'body_too_large',
    ])
  })

  it('answers 500 with the remedy when the body was read before', async () => {
    const { ask, receiver } = start()
    const read = posted()
    await read.json()
    expect(await (await receiver.handle(read)).json()).toMatchObject({
      error: { code: 'body_consumed', message: expect.stringContaining('clone()') },
    })
    const locked = posted()
    locked.body?.getReader()
    expect(await ask(locked)).toEqual([500, 'body_consumed'])
  })

  it('survives a body that is aborted', async () => {
    const { ask } = start()
    const broken = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.error(new Error('gone'))
      },
    })
    expect(await ask(posted(broken))).toEqual([400, 'request_aborted'])
  })

  it('logs a failed handler to the console without onError', async () => {
    const told = vi.spyOn(console, 'error').mockImplementation(() => {})
    try {
      const receiver = createReceiver({ secrets: [SECRET], clock })
      receiver.on('ping', () => Promise.reject(new Error('the disk is full')))
      expect((await receiver.handle(posted())).status).toBe(500)
      expect((await receiver.handle(posted(null))).status).toBe(400)
      expect(told).toHaveBeenCalledTimes(1)
      expect(told.mock.calls[0]?.[0]?.stack).toContain('the disk is full')
    } finally {
      told.mockRestore()
    }
  })
})
