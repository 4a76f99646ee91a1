import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type OwnServer, ownServer } from '../harness/server.ts'
import { filesOnDisk, plansFile, upload } from '../harness/storage.ts'

const boundary = 'XyZboundary'
const filePart = part('Content-Disposition: form-data; name="file"; filename="a.txt"', 'hello')
const end = `--${boundary}--\r\n`

function part(headers: string, content: string): string {
  return `--${boundary}\r\n${headers}\r\n\r\n${content}\r\n`
}

const idleSeconds = 2
let plans: Awaited<ReturnType<typeof plansFile>>
let server: OwnServer
let projectId: string
beforeAll(async () => {
  plans = await plansFile({ storage_gb: 0.1, file_mb: 5 })
  server = await ownServer({ FAIRLEAD_UPLOAD_IDLE_TIMEOUT: String(idleSeconds), FAIRLEAD_PLANS_FILE: plans.path })
  projectId = (await server.client.projects.create({ body: { name: 'Hostile' } })).id
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await plans[Symbol.asyncDispose]()
})

interface Answer {
  readonly status: number
  readonly code: string | undefined
  readonly field: string | undefined
}

/** Sends bytes unchanged, in these pieces. `length` replaces their Content-Length. */
function send(
  pieces: readonly (string | Uint8Array)[],
  { length, type = `multipart/form-data; boundary=${boundary}` }: { length?: number; type?: string } = {},
): Promise<Answer> {
  const whole = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0)
  return new Promise((done, fail) => {
    const outgoing = request(`${server.baseUrl}/projects/${projectId}/storage/upload`, {
      method: 'POST',
      agent: false,
      headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': type, 'content-length': length ?? whole },
    })
    outgoing.on('error', fail)
    outgoing.on('response', (response: IncomingMessage) => {
      response.toArray().then((chunks) => {
        outgoing.destroy()
        const { error } = JSON.parse(Buffer.concat(chunks).toString())
        done({ status: response.statusCode ?? 0, code: error?.code, field: error?.details.field })
      }, fail)
    })
    for (const piece of pieces) outgoing.write(piece)
    outgoing.end()
  })
}

const refused = { status: 400, code: 'invalid_request' }

/** Resolves once every row has its file, every file has its row, and no upload is running. */
async function isClean(): Promise<void> {
  await vi.waitFor(async () => {
    const rows = await server.database.query<{ id: string }>('select id from files')
    expect((await filesOnDisk(server.dataDirectory)).sort()).toEqual(rows.map(({ id }) => id).sort())
  }, 30_000)
}

describe('a boundary', () => {
  const form = (own: string) => [
    `--${own}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n--${own}--\r\n`,
  ]

  it.each([
    '----WebKitFormBoundary7MA4YWxkTrZu0gW',
    '---------------------------9051914041544843365972754266',
    '*****',
    "a'b",
    'a=b',
  ])('of this kind is accepted: %s', async (own) => {
    for (const written of [own, `"${own}"`]) {
      expect((await send(form(own), { type: `multipart/form-data; boundary=${written}` })).status).toBe(201)
    }
  })

  it.each(['bound ary=b; boundary=a', "boundary*=UTF-8''b; boundary=a", 'boundary=a; boundary=b'])(
    'delimits the counted parts: %s',
    async (parameters) => {
      const parts = Array.from({ length: 150 }, () => '--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n1\r\n')
      const answer = await send([...parts, '--b--\r\n'], { type: `multipart/form-data; ${parameters}` })
      expect(answer.status).toBe(400)
      const own = await send(form('a'), { type: `multipart/form-data; ${parameters}` })
      expect([201, 400]).toContain(own.status)
    },
  )
})

describe('an upload that is not one file in a form', () => {
  it.each<[string, readonly (string | Uint8Array)[], string]>([
    ['an empty body', [''], 'file'],
    ['no part at all', [end], 'file'],
    ['only a text part', [part('Content-Disposition: form-data; name="name"', 'x'), end], 'file'],
    ['two files', [filePart, filePart, end], 'file'],
    ['an endless part', [`--${boundary}\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nhel`], 'file'],
    ['endless headers', [`--${boundary}\r\nContent-Disposition: form-data; name="f"; fi`], 'file'],
    ['no closing boundary', [filePart], 'file'],
    ['another boundary', [filePart.replaceAll(boundary, 'other'), `--other--\r\n`], 'file'],
    ['only a boundary', [`--${boundary}`], 'file'],
    ['a part without headers', [`--${boundary}\r\n\r\nhello\r\n`, end], 'file'],
    ['a part without disposition', [part('Content-Type: text/plain', 'hello'), end], 'file'],
    [
      'nested parts',
      [
        part(
          'Content-Disposition: form-data; name="f"\r\nContent-Type: multipart/mixed; boundary=in',
          '--in\r\nContent-Disposition: file; filename="a"\r\n\r\nx\r\n--in--',
        ),
        end,
      ],
      'file',
    ],
    [
      'an outdated transfer encoding',
      [
        part('Content-Disposition: form-data; name="f"; filename="a"\r\nContent-Transfer-Encoding: base64', 'aGVsbG8='),
        end,
      ],
      'file',
    ],
    [
      'a name that is not UTF-8',
      [Buffer.from(part('Content-Disposition: form-data; name="f"; filename="a\xff.txt"', 'x'), 'latin1'), end],
      'name',
    ],
    [
      'a name that reads backwards',
      [part('Content-Disposition: form-data; name="f"; filename="a\u202egpj.exe"', 'x'), end],
      'name',
    ],
    ['a file without a name', [part('Content-Disposition: form-data; name="f"; filename=""', ''), end], 'name'],
    [
      'two names',
      [
        part('Content-Disposition: form-data; name="name"', 'x'),
        part('Content-Disposition: form-data; name="name"', 'y'),
        filePart,
        end,
      ],
      'name',
    ],
    [
      'a name that is too long',
      [part('Content-Disposition: form-data; name="name"', 'x'.repeat(100_000)), filePart, end],
      'name',
    ],
    ['too many parts without a name', [`--${boundary}\r\n\r\n\r\n`.repeat(101), filePart, end], 'file'],
    ['too many text parts', [part('Content-Disposition: form-data; name="t"', 'x').repeat(101), filePart, end], 'file'],
  ])('is refused: %s', async (_, body, field) => {
    expect(await send(body)).toEqual({ ...refused, field })
    await isClean()
  })

  it.each([
    'text/plain',
    'application/json',
    'multipart/form-data',
    'multipart/form-data; boundary=',
    'multipart/mixed; boundary=XyZboundary',
    'application/x-www-form-urlencoded',
    'nonsense',
    '',
  ])('is refused with the type %j', async (type) => {
    expect(await send([filePart, end], { type })).toEqual({ ...refused, field: 'content-type' })
  })

  it('is refused with a boundary that is longer than the rest', async () => {
    expect(await send([filePart, end], { type: `multipart/form-data; boundary=${'x'.repeat(10_000)}` })).toMatchObject(
      refused,
    )
  })
})

describe('a form that is unusual but valid', () => {
  it.each<[string, readonly string[]]>([
    ['a preamble and an epilogue', ['hello there\r\n', filePart, end, 'and good bye']],
    ['a late epilogue', [filePart, end, 'x', 'y'.repeat(100_000)]],
    ['a part that is not form data', [part('Content-Disposition: attachment; filename="b"', 'x'), filePart, end]],
    [
      'the boundary in the content',
      [
        part(
          'Content-Disposition: form-data; name="f"; filename="a"',
          `x--${boundary}\r\n-${boundary}--\r\n--${boundary.slice(1)}`,
        ),
        end,
      ],
    ],
    ['many spaces', [part('content-DISPOSITION:   form-data;   name=f;  filename=a.txt', 'x'), end]],
    [
      'an ASCII name and an extended one',
      [part(`Content-Disposition: form-data; name="f"; filename="a"; filename*=UTF-8''%e6%bc%a2`, 'x'), end],
    ],
    [
      'bytes that are not UTF-8 in a text part',
      [part('Content-Disposition: form-data; name="t"', '\u00ff'), filePart, end],
    ],
  ])('is accepted: %s', async (_, body) => {
    expect(await send(body)).toMatchObject({ status: 201 })
  })
})

describe('floods', () => {
  it('of headers in a part are refused or ignored', async () => {
    const many = Array.from({ length: 10_000 }, (_, at) => `X-Header-${at}: ${at}`).join('\r\n')
    const disposition = 'Content-Disposition: form-data; name="f"; filename="a"'
    expect(await send([part(`${many}\r\n${disposition}`, 'x'), end])).toMatchObject(refused)
    expect([201, 400]).toContain((await send([part(`${disposition}\r\n${many}`, 'x'), end])).status)
    const long = await send([part(`X-Long: ${'x'.repeat(900_000)}\r\n${disposition}`, 'x'), end])
    expect(long).toMatchObject(refused)
    await isClean()
  })

  it('of request headers are refused', async () => {
    const { port } = new URL(server.url)
    for (const flood of [
      Array.from({ length: 10_000 }, (_, at) => `X-${at}: ${at}\r\n`).join(''),
      `X-Long: ${'x'.repeat(1_000_000)}\r\n`,
    ]) {
      const socket = connect(Number(port), '127.0.0.1')
      const answer: Buffer[] = []
      socket.on('data', (chunk) => answer.push(chunk))
      socket.on('error', () => undefined)
      socket.write(`POST /v1/projects/${projectId}/storage/upload HTTP/1.1\r\nHost: x\r\n${flood}\r\n`)
      await new Promise((closed) => socket.once('close', closed))
      const text = Buffer.concat(answer).toString()
      // The connection may be cut before the response is read, because the client is still sending.
      if (text !== '') expect(text).toMatch(/^HTTP\/1\.1 400 [\s\S]*"invalid_request"/)
    }
  })

  it('before, between and behind the parts are cut off', async () => {
    const flood = 'x'.repeat(2 * 1024 * 1024)
    expect(await send([flood, filePart, end])).toEqual({ ...refused, field: 'file' })
    expect(await send([part('Content-Disposition: attachment', flood), filePart, end])).toEqual({
      ...refused,
      field: 'file',
    })
    expect(await send([part('Content-Disposition: form-data; name="note"', flood), filePart, end])).toEqual({
      ...refused,
      field: 'file',
    })
    expect((await send([filePart, end, flood])).status).toBeOneOf([201, 400])
    await isClean()
  })
})

describe('lengths and time', () => {
  it('refuses a body that its length truncates', async () => {
    const body = filePart + end
    const { port } = new URL(server.url)
    const socket = connect(Number(port), '127.0.0.1')
    const head = [
      `POST /v1/projects/${projectId}/storage/upload HTTP/1.1`,
      'Host: x',
      `Authorization: Bearer ${server.apiKey}`,
      `Content-Type: multipart/form-data; boundary=${boundary}`,
      `Content-Length: ${body.length - 20}`,
    ]
    let answer = ''
    socket.on('data', (chunk) => {
      answer += chunk
    })
    socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
    await once(socket, 'close')
    expect(answer).toMatch(/^HTTP\/1\.1 400 [\s\S]*"invalid_request"/)
    expect(answer).not.toContain('201')
    await isClean()
  })

  it('ends an upload that stalls', async () => {
    expect(await send([filePart.slice(0, -10)], { length: 100_000 })).toEqual({ ...refused, field: 'file' })
    await isClean()
  })

  it('leaves nothing of an aborted upload', async () => {
    const before = await server.database.query('select id from files')
    const outgoing = request(`${server.baseUrl}/projects/${projectId}/storage/upload`, {
      method: 'POST',
      agent: false,
      headers: {
        authorization: `Bearer ${server.apiKey}`,
        'content-type': `multipart/form-data; boundary=${boundary}`,
        'transfer-encoding': 'chunked',
      },
    })
    outgoing.on('error', () => undefined)
    outgoing.write(filePart.slice(0, -4) + 'x'.repeat(500_000))
    await expect.poll(() => filesOnDisk(server.dataDirectory)).toContainEqual(expect.stringMatching(/\.part$/))
    outgoing.destroy()
    await isClean()
    expect(await server.database.query('select id from files')).toEqual(before)
    expect(server.log.filter(({ msg }) => msg === 'request failed')).toEqual([])
  })

  it('refuses a stream without length as soon as it is too large', async () => {
    const outgoing = request(`${server.baseUrl}/projects/${projectId}/storage/upload`, {
      method: 'POST',
      agent: false,
      headers: {
        authorization: `Bearer ${server.apiKey}`,
        'content-type': `multipart/form-data; boundary=${boundary}`,
        'transfer-encoding': 'chunked',
      },
    })
    outgoing.on('error', () => undefined)
    const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
    outgoing.write(`--${boundary}\r\nContent-Disposition: form-data; name="f"; filename="endless"\r\n\r\n`)
    const flow = setInterval(() => outgoing.write('x'.repeat(100_000)), 1)
    const [response] = await answered
    clearInterval(flow)
    expect(response.statusCode).toBe(400)
    const { error } = JSON.parse(Buffer.concat(await response.toArray()).toString())
    expect(error.details).toMatchObject({ field: 'file', max_bytes: 5_000_000 })
    outgoing.destroy()
    await isClean()
  })
})

describe('random bodies', () => {
  const pieces = fc.constantFrom(
    `--${boundary}`,
    `--${boundary}--`,
    '\r\n',
    '\n',
    '\r',
    '--',
    boundary,
    'Content-Disposition: form-data; name="f"; filename="a"',
    'Content-Disposition: form-data; name="name"',
    'Content-Disposition: form-data; name="f"; filename*=UTF-8\'\'%ff',
    'Content-Disposition: form-data; name="f"; filename="\\',
    'Content-Type: ',
    'Content-Transfer-Encoding: ',
    ':',
    '\0',
    'text',
    '"',
    'é漢',
  )
  it('are 400 or a success, in any pieces, and the server survives', async () => {
    const bodies = fc.array(fc.oneof({ weight: 6, arbitrary: pieces }, fc.string({ unit: 'binary', maxLength: 5 })), {
      maxLength: 25,
    })
    await fc.assert(
      fc.asyncProperty(bodies, fc.boolean(), async (body, framed) => {
        const answer = await send(framed ? [`--${boundary}\r\n`, ...body, `\r\n${end}`] : body)
        expect(answer.status === 201 || (answer.status === 400 && answer.code === 'invalid_request')).toBe(true)
      }),
      { numRuns: 400 },
    )
    expect(server.log.filter(({ level }) => Number(level) >= 50)).toEqual([])
    expect((await upload(server.client, projectId, 'alive', 'x')).size).toBe(1)
    await isClean()
  })

  it('that are well-formed except one byte are 400 or a success', async () => {
    const good = Buffer.from(part('Content-Disposition: form-data; name="name"', 'n') + filePart + end)
    await fc.assert(
      fc.asyncProperty(fc.nat(good.length - 1), fc.nat(255), fc.nat(good.length), async (at, byte, cut) => {
        const body = Buffer.from(good)
        body[at] = byte
        const answer = await send([body.subarray(0, cut), body.subarray(cut)])
        expect(answer.status === 201 || (answer.status === 400 && answer.code === 'invalid_request')).toBe(true)
      }),
      { numRuns: 200 },
    )
    await isClean()
  })
})
