import { describe, expect, it } from 'vitest'
import { createSender, urlProblem } from '../../../server/src/features/webhooks/send.ts'
import { createDnsResolver, createOutbound } from '../../../server/src/platform/outbound.ts'
import { type Endpoint, takes, testEndpoint } from '../../harness/endpoint.ts'
import { type NameAnswer, nameServer } from '../../harness/name-server.ts'
import { ownServer } from '../../harness/server.ts'

/** Addresses to which no tenant may make a public server connect, in every notation. */
const literals = [
  'http://127.0.0.1/',
  'http://127.0.0.1./',
  'http://127.1/',
  'http://2130706433/',
  'http://0x7f000001/',
  'http://0x7f.0.0.1/',
  'http://0177.0.0.1/',
  'http://017700000001/',
  'http://127.0.0.1:8080/',
  'http://①②⑦.⓪.⓪.①/',
  'http://0.0.0.0/',
  'http://0/',
  'http://10.0.0.1/',
  'http://10.255.255.255/',
  'http://100.64.0.1/',
  'http://169.254.169.254/latest/meta-data/',
  'http://0xa9fea9fe/',
  'http://169.254.170.2/',
  'http://172.16.0.1/',
  'http://172.31.255.255/',
  'http://192.168.0.1/',
  'http://192.0.0.192/',
  'http://198.18.0.1/',
  'http://224.0.0.1/',
  'http://240.0.0.1/',
  'http://255.255.255.255/',
  'http://[::]/',
  'http://[::1]/',
  'http://[0:0:0:0:0:0:0:1]/',
  'http://[::127.0.0.1]/',
  'http://[::ffff:127.0.0.1]/',
  'http://[::ffff:7f00:1]/',
  'http://[::ffff:169.254.169.254]/',
  'http://[::ffff:0:127.0.0.1]/',
  'http://[64:ff9b::127.0.0.1]/',
  'http://[64:ff9b::a9fe:a9fe]/',
  'http://[64:ff9b:1::a00:1]/',
  'http://[2002:7f00:1::]/',
  'http://[2002:a9fe:a9fe::1]/',
  'http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/',
  'http://[2001:db8::1]/',
  'http://[fc00::1]/',
  'http://[fd00:ec2::254]/',
  'http://[fe80::1]/',
  'http://[fec0::1]/',
  'http://[ff02::1]/',
]

const forms = [
  ['http://example.com:1/', /port/],
  ['http://example.com:22/', /port/],
  ['http://example.com:25/', /port/],
  ['https://example.com:1023/', /port/],
  ['http://example.com:0/', /port/],
  ['http://user@example.com/', /user name/],
  ['http://:secret@example.com/', /user name/],
  ['https://8.8.8.8@127.0.0.1/', /user name/],
  ['ftp://example.com/', /begin with/],
  ['file:///etc/passwd', /begin with/],
  ['gopher://127.0.0.1:6379/_', /begin with/],
  ['unix:/var/run/docker.sock', /begin with/],
  ['http://exa mple.com/', /spaces/],
  ['http://example.com/\r\nHost: x', /spaces/],
  ['http://[fe80::1%25eth0]/', /must be an address/],
] as const

const publicRule = { mode: 'public', allow: [], ports: [] } as const
const message = (url: string) => ({ url, headers: {}, signature: 'v1,x', body: Buffer.from('{}') })
const signal = new AbortController().signal

describe('a public server', () => {
  const outbound = createOutbound(publicRule)

  it.each(literals)('refuses %s, and does not send to it, either', async (url) => {
    expect(urlProblem(url, outbound)).toMatch(/public address/)
    const sender = createSender({ outbound })
    expect(await sender.send(message(url), signal)).toMatchObject({ ok: false, answer: null })
    await sender.close()
  })

  it.each(forms)('refuses %s', (url, problem) => {
    expect(urlProblem(url, outbound)).toMatch(problem)
  })

  it.each(['https://example.com/', 'http://example.com:80/', 'http://example.com:8080/', 'http://8.8.8.8:1024/'])(
    'accepts %s',
    (url) => {
      expect(urlProblem(url, outbound)).toBeUndefined()
    },
  )

  it('accepts ports and networks that the operator allows', () => {
    const allowing = createOutbound({ mode: 'public', allow: ['10.0.0.0/8'], ports: [444] })
    expect(urlProblem('http://10.1.2.3:444/', allowing)).toBeUndefined()
    expect(urlProblem('http://10.1.2.3:445/', allowing)).toMatch(/port/)
  })

  it('refuses them when a webhook is created or changed', async () => {
    await using server = await ownServer({ FAIRLEAD_PUBLIC_HOST: 'apps.example.com', FAIRLEAD_OUTBOUND_PORTS: '444' })
    const refused = { code: 'invalid_request', details: { field: 'url' } }
    const { id } = await server.client.webhooks.create({ body: { url: 'https://example.com:444/' } })
    for (const url of ['http://[64:ff9b::127.0.0.1]/', 'http://example.com:25/', 'http://0x7f.1/']) {
      await expect(server.client.webhooks.create({ body: { url } })).rejects.toMatchObject(refused)
      await expect(server.client.webhooks.update({ params: { id }, body: { url } })).rejects.toMatchObject(refused)
    }
  })
})

describe('a name', () => {
  /** Sends to an endpoint on loopback under a name that the test's DNS server resolves as `answer` says. */
  const sendTo = async (name: string, endpoint: Endpoint, answer: NameAnswer, times = 1, allow: string[] = []) => {
    await using names = await nameServer(answer)
    const outbound = createOutbound({ ...publicRule, allow, resolveName: createDnsResolver([names.address]) })
    const sender = createSender({ outbound })
    const { port } = new URL(endpoint.url)
    const results = []
    for (let time = 0; time < times; time++) results.push(await sender.send(message(`http://${name}:${port}/`), signal))
    await sender.close()
    return { results, questions: names.questions }
  }
  const refused = { ok: false, answer: null, error: expect.stringContaining('not public') }

  it.each<[string, NameAnswer]>([
    ['to loopback', (_, family) => (family === 4 ? ['127.0.0.1'] : [])],
    ['to loopback over IPv6', (_, family) => (family === 6 ? ['::1'] : [])],
    ['to the metadata service', (_, family) => (family === 4 ? ['169.254.169.254'] : [])],
    ['to NAT64 of loopback', (_, family) => (family === 6 ? ['64:ff9b::7f00:1'] : [])],
    ['to 6to4 of loopback', (_, family) => (family === 6 ? ['2002:7f00:1::1'] : [])],
    ['to IPv4-mapped loopback', (_, family) => (family === 6 ? ['::ffff:7f00:1'] : [])],
    ['to a public address and a private one', (_, family) => (family === 4 ? ['8.8.8.8', '127.0.0.1'] : [])],
    ['to a public address, and a private one over IPv6', (_, family) => (family === 4 ? ['8.8.8.8'] : ['::1'])],
  ])('that leads %s is not connected to', async (_, answer) => {
    await using endpoint = await testEndpoint(takes)
    const { results } = await sendTo('endpoint.test', endpoint, answer)
    expect(results).toMatchObject([refused])
    expect(JSON.stringify(results)).not.toContain('127.0.0.1')
    expect(endpoint.requests).toEqual([])
  })

  it.each(['localhost', 'LOCALHOST', 'localhost.', 'app.localhost'])(
    '%s is loopback, whatever DNS answers',
    async (name) => {
      await using endpoint = await testEndpoint(takes)
      const { results, questions } = await sendTo(name, endpoint, () => ['8.8.8.8'])
      expect(results).toMatchObject([refused])
      expect(questions).toEqual([])
    },
  )

  it('that resolves to loopback after it was allowed (DNS rebinding) is not connected to', async () => {
    await using endpoint = await testEndpoint((response) => response.writeHead(204, { connection: 'close' }).end())
    // 127.0.0.2 stands for a public address: the operator has allowed it, and the endpoint listens there as well.
    const answer: NameAnswer = (_, family, count) => (family === 6 ? [] : [count === 1 ? '127.0.0.2' : '127.0.0.1'])
    await using names = await nameServer(answer)
    const outbound = createOutbound({
      ...publicRule,
      allow: ['127.0.0.2'],
      resolveName: createDnsResolver([names.address]),
    })
    // An earlier check gets the allowed address, the lookup of the connection the other address.
    expect(await outbound.resolve('rebound.test')).toEqual([{ address: '127.0.0.2', family: 4 }])
    const sender = createSender({ outbound })
    const result = await sender.send(message(`http://rebound.test:${new URL(endpoint.url).port}/`), signal)
    await sender.close()
    expect(result).toMatchObject(refused)
    expect(endpoint.requests).toEqual([])
  })

  it('is resolved once for each connection, which goes to the checked address', async () => {
    await using endpoint = await testEndpoint(takes)
    const answer: NameAnswer = (_, family) => (family === 4 ? ['127.0.0.1'] : [])
    const { results, questions } = await sendTo('endpoint.test', endpoint, answer, 3, ['127.0.0.1'])
    expect(results.map(({ ok }) => ok)).toEqual([true, true, true])
    const connections = Math.max(...endpoint.requests.map(({ connection }) => connection))
    // One query for A and one query for AAAA.
    expect(questions).toHaveLength(2 * connections)
  })

  it('whose DNS server never answers fails within the time of an attempt and delays no other delivery', async () => {
    await using endpoint = await testEndpoint(takes)
    await using names = await nameServer((name, family) => {
      if (name.startsWith('silent')) return undefined
      return family === 4 ? ['127.0.0.1'] : []
    })
    const outbound = createOutbound({
      ...publicRule,
      allow: ['127.0.0.1'],
      resolveName: createDnsResolver([names.address]),
    })
    const sender = createSender({ outbound })
    const { port } = new URL(endpoint.url)
    const silent = Array.from({ length: 20 }, (_, at) =>
      sender.send(message(`http://silent${at}.test:${port}/`), signal),
    )
    const waiting = Promise.race(silent)
    const first = await Promise.race([sender.send(message(`http://quick.test:${port}/`), signal), waiting])
    expect(first).toMatchObject({ ok: true })
    for (const result of await Promise.all(silent)) expect(result).toMatchObject({ ok: false, answer: null })
    await sender.close()
  })
})
