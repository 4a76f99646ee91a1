import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIP } from 'node:net'
import { decode, encode, type Packet } from 'dns-packet'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type DnsQuestion, decodeAnswer, encodeQuery } from '../../../server/src/platform/dns/messages.ts'
import { createResolver, type ResolverOptions } from '../../../server/src/platform/dns/resolver.ts'
import { type DnsServer, exchangeByUdp, query } from '../../../server/src/platform/dns/transport.ts'
import { createOutbound } from '../../../server/src/platform/outbound.ts'
import { type DnsWorld, dnsWorld } from '../../harness/dns-world.ts'

const never = new AbortController().signal
const question: DnsQuestion = { name: 'www.example.com', type: 'A', recursion: true }

/** A server whose every message is made by hand: `reply` returns the messages for a query. */
async function rawServer(reply: (query: Buffer, count: number, port: number) => readonly Buffer[]) {
  const socket = createSocket('udp4')
  let count = 0
  socket.on('message', async (message, { port, address }) => {
    count += 1
    // In sequence, so that no message is lost in a full buffer.
    for (const each of reply(message, count, port)) await new Promise((sent) => socket.send(each, port, address, sent))
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return {
    server: { address: '127.0.0.1', port: socket.address().port },
    [Symbol.asyncDispose]: async () => void socket.close(),
  }
}

const answerTo = (message: Buffer, more: Partial<Packet>): Buffer => {
  const { id = 0, questions = [] } = decode(message)
  return encode({ id, type: 'response', flags: 0x0180, questions, ...more })
}

const addressRecord = (data: string) => ({ name: 'www.example.com', type: 'A', ttl: 60, data }) as const

const resolverOf = (dns: DnsWorld, more: Partial<ResolverOptions> = {}) =>
  createResolver({ servers: [dns.recursive], allows: () => true, authorityPort: dns.authorityPort, ...more })

describe('a query', () => {
  it('gives rcode, flags and records, with names in lower case', async () => {
    await using raw = await rawServer((message) => [
      answerTo(message, {
        flags: 0x05a0,
        questions: [{ name: 'WwW.eXample.COM', type: 'A' }],
        answers: [
          { name: 'WWW.example.com', type: 'CNAME', ttl: 60, data: 'App.Example.NET' },
          { name: 'app.example.net', type: 'A', ttl: 2 ** 31 + 5, data: '192.0.2.1' },
        ],
        authorities: [
          { name: 'example.net', type: 'SOA', ttl: 900, data: { mname: 'ns', rname: 'me', minimum: 60 } },
          {
            name: 'example.net',
            type: 'CAA',
            ttl: 1,
            data: { issuerCritical: true, tag: 'issue', value: 'a.example' },
          },
          { name: 'example.net', type: 'TXT', ttl: 1, data: ['one ', 'text'] },
          { name: 'example.net', type: 'SRV', ttl: 1, data: { port: 1, target: 'x', priority: 0 } },
        ],
      }),
    ])
    expect(await query(raw.server, question, never)).toEqual({
      rcode: 'NOERROR',
      isAuthoritative: true,
      isTruncated: false,
      isRecursionAvailable: true,
      isAuthenticated: true,
      answers: [
        { name: 'www.example.com', type: 'CNAME', ttl: 60, target: 'app.example.net' },
        { name: 'app.example.net', type: 'A', ttl: 0, address: '192.0.2.1' },
      ],
      authorities: [
        { name: 'example.net', type: 'SOA', ttl: 900, negativeTtl: 60 },
        { name: 'example.net', type: 'CAA', ttl: 1, isCritical: true, tag: 'issue', value: 'a.example' },
        { name: 'example.net', type: 'TXT', ttl: 1, text: 'one text' },
      ],
      additionals: [],
    })
  })

  it('uses EDNS of 1232 bytes, a random id, and the requested flags', async () => {
    const queries: ReturnType<typeof decode>[] = []
    await using raw = await rawServer((message) => {
      queries.push(decode(message))
      return [answerTo(message, {})]
    })
    await query(raw.server, question, never)
    await query(raw.server, { ...question, recursion: false, checkingDisabled: true }, never)
    expect(queries.map(({ flag_rd, flag_cd, flag_ad }) => [flag_rd, flag_cd, flag_ad])).toEqual([
      [true, false, true],
      [false, true, false],
    ])
    expect(queries[0]?.additionals).toMatchObject([{ type: 'OPT', udpPayloadSize: 1232 }])
    for (let round = 0; round < 20; round += 1) await query(raw.server, question, never)
    expect(new Set(queries.map(({ id }) => id)).size).toBeGreaterThan(15)
  })

  it('ignores responses with another id, to another question, and queries; it accepts the matching response', async () => {
    await using raw = await rawServer((message) => {
      const other = Buffer.from(message)
      other.writeUInt16BE((message.readUInt16BE(0) + 1) & 0xffff)
      return [
        answerTo(other, { answers: [addressRecord('192.0.2.66')] }),
        answerTo(message, {
          questions: [{ name: 'evil.example.com', type: 'A' }],
          answers: [addressRecord('192.0.2.66')],
        }),
        answerTo(message, { questions: [{ name: 'www.example.com', type: 'AAAA' }] }),
        answerTo(message, { questions: [] }),
        message,
        Buffer.from([1, 2, 3]),
        answerTo(message, { answers: [addressRecord('192.0.2.1')] }),
      ]
    })
    expect(await query(raw.server, question, never)).toMatchObject({ answers: [{ address: '192.0.2.1' }] })
  })

  it('ignores an answer from another sender', async () => {
    const other = createSocket('udp4')
    await using raw = await rawServer((message, count, port) => {
      other.send(answerTo(message, { answers: [addressRecord('192.0.2.66')] }), port, '127.0.0.1')
      return count === 1 ? [] : [answerTo(message, { answers: [addressRecord('192.0.2.1')] })]
    })
    expect(await query(raw.server, question, never)).toMatchObject({ answers: [{ address: '192.0.2.1' }] })
    other.close()
  })

  it('ends when its server floods it with invalid messages, without reading them', async () => {
    const tooLong = Buffer.alloc(5_000)
    const floods: Record<string, (message: Buffer) => Buffer> = {
      'to another question': (message) =>
        Buffer.concat([answerTo(message, { questions: [{ name: 'evil.example.com', type: 'A' }] }), manyNames(1_100)]),
      'too long': (message) => {
        message.copy(tooLong)
        return tooLong
      },
    }
    for (const [kind, datagram] of Object.entries(floods)) {
      await using raw = await rawServer((message, count) =>
        count === 1 ? Array.from({ length: 200 }, () => datagram(message)) : [],
      )
      let read = 0
      const message = encodeQuery(7, question, true)
      const asked = exchangeByUdp(
        raw.server,
        message,
        (received) => {
          read += 1
          return decodeAnswer(received, 7, question)
        },
        AbortSignal.timeout(20_000),
      )
      await expect(asked, kind).rejects.toMatchObject({
        code: 'malformed',
        message: expect.stringContaining('not an answer'),
      })
      expect(read, kind).toBeLessThanOrEqual(kind === 'too long' ? 0 : 17)
    }
  })

  it('is sent again with another id when the first message is lost', async () => {
    const ids: number[] = []
    await using raw = await rawServer((message, count) => {
      ids.push(message.readUInt16BE(0))
      return count === 1 ? [] : [answerTo(message, { answers: [addressRecord('192.0.2.1')] })]
    })
    expect(await query(raw.server, question, never)).toMatchObject({ rcode: 'NOERROR' })
    expect(ids).toHaveLength(2)
  })

  it('is sent without EDNS to a server that does not support it', async () => {
    await using raw = await rawServer((message) => {
      const knows = (decode(message).additionals ?? []).length === 0
      return [
        knows
          ? answerTo(message, { answers: [addressRecord('192.0.2.1')] })
          : answerTo(message, { flags: 1, questions: [] }),
      ]
    })
    expect(await query(raw.server, question, never)).toMatchObject({ rcode: 'NOERROR', answers: [{}] })
  })

  it('is sent by TCP when the response is too long for UDP', async () => {
    const text = 'x'.repeat(250)
    await using dns = await dnsWorld({
      'example.com': `long TXT ${Array.from({ length: 20 }, () => text).join(' | ')}`,
    })
    const answer = await query(dns.recursive, { name: 'long.example.com', type: 'TXT', recursion: true }, never)
    expect(answer).toMatchObject({ isTruncated: false, answers: [{ text: text.repeat(20) }] })
    expect(dns.questions.filter((each) => each.startsWith('recursive'))).toHaveLength(2)
  })

  it('fails for a silent server, a missing server, and a server that sends no valid message', async () => {
    await using silent = await rawServer(() => [])
    await expect(query(silent.server, question, never)).rejects.toMatchObject({ name: 'DnsError', code: 'timeout' })
    const gone = await rawServer(() => [])
    await gone[Symbol.asyncDispose]()
    await expect(query(gone.server, question, never)).rejects.toMatchObject({ code: 'unreachable' })
    await using garbled = await rawServer((message) => [
      answerTo(message, { answers: [addressRecord('192.0.2.1')] }).subarray(0, -3),
    ])
    await expect(query(garbled.server, question, never)).rejects.toMatchObject({ code: 'malformed' })
  })

  it('fails without a message for names that no message can carry', async () => {
    const nowhere: DnsServer = { address: '127.0.0.1', port: 9 }
    for (const name of [
      `${'a'.repeat(64)}.com`,
      'a..com',
      `${'a.'.repeat(130)}com`,
      'a b.com',
      'ü.com',
      'a\u0000.com',
    ]) {
      await expect(query(nowhere, { ...question, name }, never)).rejects.toMatchObject({ code: 'malformed' })
    }
  })

  it('ends when its signal aborts, at any time', async () => {
    await using silent = await rawServer(() => [])
    await expect(query(silent.server, question, AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough')
    const stop = new AbortController()
    const asked = query(silent.server, question, stop.signal)
    stop.abort(new Error('enough'))
    await expect(asked).rejects.toThrow('enough')
  })
})

describe('a resolver', () => {
  it('follows CNAME records and returns the names on the way', async () => {
    await using dns = await dnsWorld({
      'example.com': 'www 60 CNAME one.example.net\n* CNAME www.example.com',
      'example.net': 'one 120 CNAME two.example.net\ntwo 30 A 192.0.2.1\ntwo A 192.0.2.2',
    })
    const resolver = resolverOf(dns)
    expect(await resolver.resolve('WWW.example.com', 'A', never)).toMatchObject({
      outcome: 'found',
      names: ['www.example.com', 'one.example.net', 'two.example.net'],
      records: [{ address: '192.0.2.1' }, { address: '192.0.2.2' }],
      ttl: 60,
    })
    expect(await resolver.resolve('any.example.com', 'AAAA', never)).toMatchObject({
      outcome: 'no_data',
      names: ['any.example.com', 'www.example.com', 'one.example.net', 'two.example.net'],
    })
    expect(await resolver.resolve('www.example.com', 'CNAME', never)).toMatchObject({
      outcome: 'found',
      names: ['www.example.com'],
      records: [{ target: 'one.example.net' }],
    })
  })

  it('follows CNAME records that the server did not follow', async () => {
    await using dns = await dnsWorld({ 'example.com': 'app A 192.0.2.1' })
    const alias = { name: 'www.example.com', type: 'CNAME', ttl: 60, data: 'app.example.com' } as const
    dns.recursiveAnswers('www.example.com', 'A', { answers: [alias] })
    expect(await resolverOf(dns).resolve('www.example.com', 'A', never)).toMatchObject({
      outcome: 'found',
      names: { length: 2 },
    })
  })

  it('distinguishes missing names from names without records, and returns for how long', async () => {
    await using dns = await dnsWorld({ 'example.com': 'www A 192.0.2.1\ngone CNAME missing.example.com' })
    const resolver = resolverOf(dns)
    expect(await resolver.resolve('no.example.com', 'A', never)).toMatchObject({ outcome: 'no_name', ttl: 600 })
    expect(await resolver.resolve('www.example.com', 'AAAA', never)).toMatchObject({ outcome: 'no_data', ttl: 600 })
    expect(await resolver.resolve('gone.example.com', 'A', never)).toMatchObject({
      outcome: 'no_name',
      names: ['gone.example.com', 'missing.example.com'],
      ttl: 300,
    })
  })

  it('finds loops and overlong chains, even when the server only fails', async () => {
    const chain = Array.from({ length: 14 }, (_, index) => `c${index} CNAME c${index + 1}.example.com`).join('\n')
    await using dns = await dnsWorld({
      'example.com': `${chain}\nc14 A 192.0.2.1\na CNAME b.example.com\nb CNAME a.example.com\nself CNAME self.example.com`,
    })
    const resolver = resolverOf(dns)
    for (const name of ['a', 'self']) {
      const found = await resolver.resolve(`${name}.example.com`, 'A', never)
      expect(found).toMatchObject({ outcome: 'cname_loop', records: [] })
      expect(found.names.slice(0, -1)).toContain(found.names.at(-1))
    }
    expect(await resolver.resolve('c0.example.com', 'A', never)).toMatchObject({ outcome: 'cname_too_long' })
    expect(await resolver.resolve('c6.example.com', 'A', never)).toMatchObject({
      outcome: 'found',
      names: { length: 9 },
    })
    const failing = ['a.example.com', 'c0.example.com']
    for (const name of failing) for (const type of ['A', 'AAAA']) dns.recursiveAnswers(name, type, { rcode: 2 })
    expect(await resolver.resolve('a.example.com', 'A', never)).toMatchObject({
      outcome: 'cname_loop',
      names: { length: 3 },
    })
    expect(await resolver.resolve('c0.example.com', 'A', never)).toMatchObject({ outcome: 'cname_too_long' })
  })

  it('distinguishes wrong signatures from failing servers', async () => {
    await using dns = await dnsWorld({ 'example.com': 'www A 192.0.2.1', 'example.net': 'www A 192.0.2.1' })
    dns.breakDnssec('example.com')
    for (const server of [0, 1]) dns.behave('example.net', server, 'servfail')
    const resolver = resolverOf(dns)
    expect(await resolver.resolve('www.example.com', 'A', never)).toMatchObject({
      outcome: 'failed',
      failure: 'dnssec',
    })
    expect(await resolver.resolve('www.example.net', 'A', never)).toMatchObject({
      outcome: 'failed',
      failure: 'SERVFAIL',
    })
  })

  it('asks the next server when one is silent or fails, and begins with the server that answered', async () => {
    await using dns = await dnsWorld({ 'example.com': 'www A 192.0.2.1' })
    const asked: string[] = []
    await using failing = await rawServer((message) => {
      asked.push('failing')
      return [answerTo(message, { flags: 0x0182 })]
    })
    await using silent = await rawServer(() => {
      asked.push('silent')
      return []
    })
    const resolver = resolverOf(dns, { servers: [silent.server, failing.server, dns.recursive] })
    expect(await resolver.resolve('www.example.com', 'A', never)).toMatchObject({ outcome: 'found' })
    expect(new Set(asked)).toEqual(new Set(['silent', 'failing']))
    asked.length = 0
    expect(await resolver.resolve('www.example.com', 'A', never)).toMatchObject({ outcome: 'found' })
    expect(asked).toEqual([])
    const none = resolverOf(dns, { servers: [failing.server] })
    expect(await none.resolve('www.example.com', 'A', never)).toMatchObject({ outcome: 'failed', failure: 'SERVFAIL' })
    const nobody = resolverOf(dns, { servers: [] })
    expect(await nobody.resolve('www.example.com', 'A', never)).toMatchObject({
      outcome: 'failed',
      failure: 'unreachable',
    })
  })

  it('uses the system’s servers by default', async () => {
    await using dns = await dnsWorld()
    const resolver = resolverOf(dns, { servers: null })
    const { outcome } = await resolver.resolve('a.invalid', 'A', AbortSignal.timeout(60_000))
    expect(['no_name', 'failed', 'no_data']).toContain(outcome)
  })

  it('rejects only when its signal aborts', async () => {
    await using silent = await rawServer(() => [])
    await using dns = await dnsWorld()
    const resolver = resolverOf(dns, { servers: [silent.server] })
    const stop = AbortSignal.timeout(50)
    await expect(resolver.resolve('www.example.com', 'A', stop)).rejects.toThrow(/timeout/)
    await expect(resolver.zoneOf('www.example.com', AbortSignal.abort())).rejects.toThrow(/abort/)
  })
})

describe('the zone of a name', () => {
  it('is the zone that contains the name, with its servers’ addresses', async () => {
    await using dns = await dnsWorld({ 'example.com': 'a.b A 192.0.2.1', 'sub.example.com': 'www A 192.0.2.1' })
    const resolver = resolverOf(dns)
    const servers = (zone: string) =>
      [0, 1].map((index) => ({
        name: `ns${index + 1}.${zone}`,
        addresses: [dns.addressOf(zone, index)],
        isPrivate: false,
        isMissing: false,
      }))
    expect(await resolver.zoneOf('x.a.b.Example.com', never)).toEqual({
      name: 'example.com',
      servers: servers('example.com'),
    })
    expect(await resolver.zoneOf('www.sub.example.com', never)).toEqual({
      name: 'sub.example.com',
      servers: servers('sub.example.com'),
    })
    expect(await resolver.zoneOf('nobody.net', never)).toBeNull()
    expect(await resolver.zoneOf('nobody.com', never)).toMatchObject({ name: 'com' })
  })

  it('comes from the parent zone when its servers fail', async () => {
    await using dns = await dnsWorld({ 'example.com': '', 'sub.example.com': 'www A 192.0.2.1' })
    for (const server of [0, 1]) dns.behave('sub.example.com', server, 'refused')
    const resolver = resolverOf(dns)
    expect(await resolver.zoneOf('www.sub.example.com', never)).toMatchObject({
      name: 'sub.example.com',
      servers: [{ addresses: [dns.addressOf('sub.example.com', 0)] }, {}],
    })
    for (const server of [0, 1]) dns.behave('example.com', server, 'refused')
    expect(await resolver.zoneOf('www.sub.example.com', never)).toMatchObject({ name: 'example.com' })
  })

  it('has servers that are asked without recursion, and never at forbidden addresses', async () => {
    await using dns = await dnsWorld({ 'example.com': 'www A 192.0.2.1' })
    const address = dns.addressOf('example.com', 0)
    const open = resolverOf(dns)
    const answer = await open.askAuthority(address, { name: 'www.example.com', type: 'A' }, never)
    expect(answer).toMatchObject({ isAuthoritative: true, answers: [{ address: '192.0.2.1' }] })
    const guarded = resolverOf(dns, { allows: createOutbound({ mode: 'public', allow: [], ports: [] }).allows })
    const before = dns.questions.length
    await expect(guarded.askAuthority(address, { name: 'www.example.com', type: 'A' }, never)).rejects.toMatchObject({
      code: 'unreachable',
    })
    expect(await guarded.zoneOf('www.example.com', never)).toMatchObject({
      servers: [{ addresses: [], isPrivate: true }, {}],
    })
    expect(dns.questions.slice(before).filter((each) => !each.startsWith('recursive'))).toEqual([])
  })

  it('is not searched label by label in names without an end', async () => {
    await using dns = await dnsWorld({ 'example.com': '' })
    await resolverOf(dns).zoneOf(`${'a.'.repeat(110)}example.com`, never)
    expect(dns.questions.length).toBeLessThan(20)
  })
})

describe('every message', () => {
  it('gives a response, nothing or an error at once', () => {
    const whole = encode({
      type: 'response',
      id: 1,
      flags: 0x0180,
      questions: [{ name: 'www.example.com', type: 'A' }],
      answers: [
        { name: 'www.example.com', type: 'CNAME', ttl: 60, data: 'app.example.net' },
        addressRecord('192.0.2.1'),
        { name: 'app.example.net', type: 'AAAA', ttl: 60, data: '2001:db8::1' },
        { name: 'app.example.net', type: 'TXT', ttl: 60, data: ['one', 'two'] },
        { name: 'app.example.net', type: 'CAA', ttl: 60, data: { flags: 0, tag: 'issue', value: 'a.example' } },
        { name: 'app.example.net', type: 'MX', ttl: 60, data: { preference: 1, exchange: 'mail.example.net' } },
        { name: 'app.example.net', type: 'SOA', ttl: 60, data: { mname: 'ns', rname: 'me' } },
      ],
    })
    const changes = fc.array(fc.tuple(fc.nat({ max: whole.length - 3 }), fc.nat({ max: 255 })), { maxLength: 12 })
    fc.assert(
      fc.property(changes, fc.nat({ max: whole.length }), (changed, cut) => {
        const message = Buffer.from(whole)
        for (const [at, value] of changed) message[2 + at] = value
        message[2] = (message[2] ?? 0) | 0x80
        try {
          const answer = decodeAnswer(message.subarray(0, message.length - (cut % 40)), 1, question)
          for (const record of answer?.answers ?? []) {
            if (record.type === 'A' || record.type === 'AAAA') expect(isIP(record.address)).toBeGreaterThan(0)
          }
        } catch (error) {
          expect(error).toBeInstanceOf(Error)
        }
      }),
      { numRuns: 20_000 },
    )
  })

  it('to another question is recognised by the question, without its records', () => {
    const other = encode({ type: 'response', id: 1, questions: [{ name: 'www.example.org', type: 'A' }] })
    other.writeUInt16BE(0xffff, 6)
    expect(decodeAnswer(other, 1, question)).toBeUndefined()
    expect(() => decodeAnswer(other, 1, { ...question, name: 'WWW.example.ORG' })).toThrow(/range/)
  })

  it('is parsed quickly, however its names point at each other', () => {
    for (const [kind, message] of Object.entries(slowest())) {
      const times = Array.from({ length: 5 }, () => {
        // Excludes the time of other programs on a busy machine.
        const begun = process.threadCpuUsage()
        const answer = decodeAnswer(message, 1, question)
        const { user, system } = process.threadCpuUsage(begun)
        expect(answer, kind).toMatchObject({ rcode: 'NOERROR' })
        return (user + system) / 1_000
      })
      const [fastest = 0] = times.sort((one, other) => one - other)
      // The same message took more than 30 ms when each name was parsed again.
      expect(fastest, kind).toBeLessThan(15)
    }
  })

  it('has names that end', () => {
    const asked = encode({ id: 1, questions: [{ name: 'www.example.com', type: 'A' }] }).subarray(12)
    const endless = [
      // A name that is a pointer to itself, a loop through a label, and labels beyond the longest name.
      Buffer.from(pointerTo(12 + asked.length)),
      Buffer.from([1, 97, ...pointerTo(12 + asked.length)]),
      Buffer.concat([Buffer.alloc(4_000, Buffer.from([1, 97])), Buffer.from([0])]),
    ]
    for (const name of endless) {
      const header = Buffer.from([0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0])
      const record = Buffer.from([0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4])
      expect(() => decodeAnswer(Buffer.concat([header, asked, name, record]), 1, question)).toThrow(/name/)
    }
  })
})

/** The records of a name with the maximal number of labels, after a record that holds the name. */
function manyNames(length: number): Buffer {
  const start = encode({ id: 1, questions: [{ name: 'www.example.com', type: 'A' }] }).length
  const labels = Buffer.concat([Buffer.alloc(252, Buffer.from([1, 97])), Buffer.from([0])])
  const holder = Buffer.concat([Buffer.from([...pointerTo(12), 0xff, 0, 0, 1, 0, 0, 0, 0]), lengthOf(labels), labels])
  const name = pointerTo(start + 12)
  const record = Buffer.from([...name, 0, 2, 0, 1, 0, 0, 0, 0, 0, 2, ...name])
  return Buffer.concat([
    holder,
    ...Array.from({ length: Math.floor((length - holder.length) / record.length) }, () => record),
  ])
}

/** The messages of 16 kB that take the longest to parse. */
function slowest(): Record<string, Buffer> {
  const asked = encode({ id: 1, questions: [{ name: 'www.example.com', type: 'A' }] }).subarray(12)
  const withRecords = (count: number, records: Buffer): Buffer => {
    const header = Buffer.from([0, 1, 0x81, 0x80, 0, 1, count >> 8, count & 255, 0, 0, 0, 0])
    return Buffer.concat([header, asked, records])
  }
  const labels = manyNames(16_300)
  // Each record has a pointer to the owner of the previous record: a chain as long as the message.
  const start = 12 + asked.length
  const chained = Buffer.concat(
    Array.from({ length: 1_000 }, (_, index) => {
      const owner = pointerTo(index === 0 ? 12 : start + 16 * (index - 1))
      return Buffer.from([...owner, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4])
    }),
  )
  return {
    labels: withRecords(1 + Math.floor((labels.length - 265) / 14), labels),
    pointers: withRecords(1_000, chained),
  }
}

const lengthOf = (data: Buffer): Buffer => Buffer.from([data.length >> 8, data.length & 255])
const pointerTo = (at: number): number[] => [0xc0 | (at >> 8), at & 255]
