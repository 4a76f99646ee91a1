import { describe, expect, it } from 'vitest'
import { createReceiver, ReceiverError, type WebhookHeaders } from '../../../receiver/src/index.ts'
import {
  clock,
  codeOf,
  codeOfAsync,
  deployed,
  json,
  MAX_BODY,
  NOW,
  OTHER_SECRET,
  SECRET,
  signedHeaders,
} from '../../harness/receiver/support.ts'

const receiver = createReceiver({ secrets: [SECRET], clock })
const body = json(deployed)
const headers = signedHeaders(body)

const verifying = (bytes: Uint8Array, sent: WebhookHeaders = signedHeaders(bytes)) =>
  codeOfAsync(receiver.verify(sent, bytes))

describe('verify', () => {
  it('returns the envelope as sent, with the id of the webhook', async () => {
    expect(await receiver.verify(headers, body)).toEqual({
      known: true,
      event: { ...deployed, id: 'msg_1' },
      secretIndex: 0,
    })
  })

  it('accepts bytes that are a view into a larger buffer', async () => {
    const padded = Buffer.concat([Buffer.from('xx'), body, Buffer.from('yy')])
    const view = new Uint8Array(padded.buffer, padded.byteOffset + 2, body.length)
    expect((await receiver.verify(headers, view)).event.id).toBe('msg_1')
  })

  it('accepts unknown fields and removes them', async () => {
    const newer = json({ ...deployed, extra: 1, data: { ...deployed.data, region: 'eu' } })
    expect(await receiver.verify(signedHeaders(newer), newer)).toEqual({
      known: true,
      event: { ...deployed, id: 'msg_1' },
      secretIndex: 0,
    })
  })

  it.each(['file.renamed', 'toString', '__proto__'])('returns the unknown event %s unchecked', async (name) => {
    const unknown = json({ ...deployed, event: name, data: { anything: [1] } })
    expect(await receiver.verify(signedHeaders(unknown), unknown)).toEqual({
      known: false,
      event: { id: 'msg_1', event: name, timestamp: deployed.timestamp, data: { anything: [1] } },
      secretIndex: 0,
    })
  })

  it('does not let a payload reach a prototype', async () => {
    const hostile = Buffer.from(
      JSON.stringify({ ...deployed, event: 'other' }).replace('"data":{', '"data":{"__proto__":{"admin":true},'),
    )
    const { event } = await receiver.verify(signedHeaders(hostile), hostile)
    expect('admin' in event.data).toBe(false)
  })

  it('accepts either secret during a rotation', async () => {
    const rotating = createReceiver({ secrets: [SECRET, OTHER_SECRET], clock })
    for (const secret of [SECRET, OTHER_SECRET]) {
      expect(await codeOfAsync(rotating.verify(signedHeaders(body, { secret }), body))).toBeUndefined()
    }
    expect(await verifying(body, signedHeaders(body, { secret: OTHER_SECRET }))).toBe('no_matching_signature')
  })

  it('applies the configured tolerance', async () => {
    const strict = createReceiver({ secrets: [SECRET], clock, tolerance: 5 })
    expect(await codeOfAsync(strict.verify(signedHeaders(body, { timestamp: NOW - 5 }), body))).toBeUndefined()
    expect(await codeOfAsync(strict.verify(signedHeaders(body, { timestamp: NOW - 6 }), body))).toBe(
      'timestamp_too_old',
    )
    expect(await verifying(body, signedHeaders(body, { timestamp: NOW + 301 }))).toBe('timestamp_too_new')
  })
})

describe('headers', () => {
  it('are found in any case', async () => {
    const mixed = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [
        name.replace('webhook', 'WebHook').replace(/-./, (c) => c.toUpperCase()),
        value,
      ]),
    )
    expect(Object.keys(mixed)).toContain('WebHook-Signature')
    expect(await verifying(body, mixed)).toBeUndefined()
  })

  it('may be one-element arrays', async () => {
    const arrays = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]))
    expect(await verifying(body, arrays)).toBeUndefined()
  })

  it.each(Object.keys(headers))('are refused when %s is missing, empty, or sent twice', async (name) => {
    const value = headers[name as keyof typeof headers]
    for (const missing of [undefined, '', [], ['']]) {
      expect(await verifying(body, { ...headers, [name]: missing })).toBe('missing_header')
    }
    expect(await verifying(body, { ...headers, [name]: [value, value] })).toBe('duplicate_header')
  })
})

describe('the order of checks', () => {
  const old = { 'webhook-id': 'msg_1', 'webhook-timestamp': '1', 'webhook-signature': 'v1,no' }

  it('is size, headers, timestamp, signature, UTF-8, JSON, schema', async () => {
    const broken = Buffer.from([0xff])
    expect(await verifying(Buffer.alloc(MAX_BODY + 1), {})).toBe('body_too_large')
    expect(await verifying(broken, {})).toBe('missing_header')
    expect(await verifying(broken, old)).toBe('timestamp_too_old')
    expect(await verifying(broken, { ...old, 'webhook-timestamp': String(NOW) })).toBe('no_matching_signature')
    expect(await verifying(broken)).toBe('invalid_utf8')
    expect(await verifying(Buffer.from('{'))).toBe('invalid_json')
    expect(await verifying(Buffer.from('{}'))).toBe('invalid_payload')
  })

  it('accepts a body of exactly 1 MiB', async () => {
    const start = JSON.stringify({ ...deployed, padding: '' }).slice(0, -2)
    const largest = Buffer.from(`${start}${'x'.repeat(MAX_BODY - start.length - 2)}"}`)
    expect(largest.length).toBe(MAX_BODY)
    expect(await verifying(largest)).toBeUndefined()
  })
})

describe('the body', () => {
  it('is refused when it is signed and not UTF-8, and is never read as U+FFFD', async () => {
    const [before, after] = JSON.stringify(deployed).split('dep_1') as [string, string]
    const invalid = Buffer.concat([Buffer.from(before), Buffer.from([0xff]), Buffer.from(after)])
    const replaced = Buffer.from(invalid.toString())
    expect(await verifying(invalid)).toBe('invalid_utf8')
    expect(await verifying(invalid, signedHeaders(replaced))).toBe('no_matching_signature')
    expect(await verifying(replaced)).toBeUndefined()
  })

  it.each([
    ['a byte order mark before it', `\uFEFF${JSON.stringify(deployed)}`],
    ['nothing in it', ''],
    ['a second value', '{} {}'],
  ])('is refused as JSON with %s', async (_, text) => {
    expect(await verifying(Buffer.from(text))).toBe('invalid_json')
  })

  it.each([
    ['null', null],
    ['a list', [deployed]],
    ['a body without an event', { ...deployed, event: undefined }],
    ['an event that is not a text', { ...deployed, event: ['deployment.succeeded'] }],
    ['a timestamp that is not a time', { ...deployed, timestamp: 'yesterday' }],
    ['data that is a list', { ...deployed, data: [] }],
    ['data with a field missing', { ...deployed, data: { ...deployed.data, url: undefined } }],
    ['data with a field of another type', { ...deployed, data: { ...deployed.data, project_id: 7 } }],
  ])('is refused as a payload when it is %s', async (_, value) => {
    expect(await verifying(json(value))).toBe('invalid_payload')
  })

  it('is never quoted by an error; the error names the path', async () => {
    const wrong = json({ ...deployed, data: { ...deployed.data, url: { token: 'hunter2' } } })
    try {
      await receiver.verify(signedHeaders(wrong), wrong)
      expect.unreachable()
    } catch (error) {
      expect(error).toBeInstanceOf(ReceiverError)
      expect(String(error)).toContain('data.url')
      expect(error instanceof Error && `${error.stack}${error.cause}`).not.toContain('hunter2')
    }
  })

  it('is refused with a clear message when it is not bytes', async () => {
    const parsed: unknown = deployed
    for (const wrong of [parsed, body.toString(), undefined]) {
      // @ts-expect-error: plain JavaScript may pass it
      expect(await codeOfAsync(receiver.verify(headers, wrong))).toBe('not_raw_bytes')
    }
  })
})

it.each(['2025-10-09T10:53:20+02:00', '2025-10-09T08:53:20.5Z', '2025-10-09T03:23:20.000-05:30'])(
  'the time of an event may be %s',
  async (timestamp) => {
    const body = json({ ...deployed, timestamp })
    expect((await receiver.verify(signedHeaders(body), body)).event.timestamp).toBe(timestamp)
  },
)

describe('createReceiver', () => {
  it.each([
    ['no secrets', { secrets: [] }, 'invalid_secret'],
    ['an empty secret', { secrets: [''] }, 'invalid_secret'],
    ['a prefix for a secret', { secrets: [SECRET, 'whsec_'] }, 'invalid_secret'],
    ['a NaN tolerance', { secrets: [SECRET], tolerance: Number.NaN }, 'invalid_option'],
    ['an infinite tolerance', { secrets: [SECRET], tolerance: Number.POSITIVE_INFINITY }, 'invalid_option'],
    ['a negative tolerance', { secrets: [SECRET], tolerance: -1 }, 'invalid_option'],
  ])('refuses %s', (_, options, code) => {
    expect(codeOf(() => createReceiver(options))).toBe(code)
  })

  it.each(['', 'webhooks', '/webhooks?x=1', 'https://example.com/webhooks'])('refuses the path %j', async (path) => {
    expect(codeOf(() => receiver.middleware({ path }))).toBe('invalid_option')
  })

  it.each([undefined, null, 'whsec_1', [SECRET]])('refuses %j for options, and names the valid form', (options) => {
    expect(() => createReceiver(options as never)).toThrow(/no options.*createReceiver\(\{ secrets/)
  })

  it.each([null, '/webhooks'])('refuses %j for the options of the middleware', (options) => {
    expect(() => receiver.middleware(options as never)).toThrow(/not an object.*\{ path: "\/webhooks\/fairlead" \}/)
  })

  it('refuses a second handler of an event', async () => {
    const fresh = createReceiver({ secrets: [SECRET] })
    fresh.on('deployment.succeeded', () => {})
    expect(() => fresh.on('deployment.succeeded', () => {})).toThrow(/has a handler already/)
  })
})
