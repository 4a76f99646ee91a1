import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { type DecodedPacket, decode, encode, type Packet, type Question } from 'dns-packet'

/** Returns the addresses of a name, or `undefined` to leave the query unanswered. `count` is 1 for the first query. */
export type NameAnswer = (name: string, family: 4 | 6, count: number) => readonly string[] | undefined

export interface NameServer extends AsyncDisposable {
  /** For `dns.Resolver`'s `setServers`. */
  readonly address: string
  /** The names of all queries, in order. */
  readonly questions: readonly string[]
}

/** Starts a DNS server that answers queries for A and AAAA. Its records have a TTL of zero. */
export async function nameServer(answer: NameAnswer): Promise<NameServer> {
  const questions: string[] = []
  const counts = new Map<string, number>()
  const server = await serveDns({ address: '127.0.0.1', port: 0 }, ({ name, type }) => {
    const family = type === 'A' ? 4 : type === 'AAAA' ? 6 : undefined
    const count = (counts.get(`${name} ${type}`) ?? 0) + 1
    counts.set(`${name} ${type}`, count)
    questions.push(name)
    const addresses = family === undefined ? [] : answer(name, family, count)
    if (addresses === undefined) return undefined
    const answers = addresses.map((data) => ({ name, type: family === 4 ? 'A' : 'AAAA', ttl: 0, data }) as const)
    return { flags: recursionAvailable, answers }
  })
  return Object.assign(server, { address: `127.0.0.1:${server.port}`, questions })
}

export const recursionAvailable = 0x0080

/** The rest of an answer: its id, question and the copied flags are added. `undefined` leaves the query unanswered. */
export type DnsAnswering = (
  question: Question,
  query: DecodedPacket,
  transport: 'udp' | 'tcp',
) => (Packet & { readonly rcode?: number }) | undefined | Promise<(Packet & { readonly rcode?: number }) | undefined>

export interface RunningDns extends AsyncDisposable {
  readonly port: number
}

/** Starts a DNS server over UDP and TCP at one port: the given port, or with 0 a port that is free for both. */
export async function serveDns(
  at: { readonly address: string; readonly port: number },
  answering: DnsAnswering,
): Promise<RunningDns> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await serveDnsOnce(at, answering)
    } catch (error) {
      if (at.port !== 0 || attempt === 20) throw error
    }
  }
}

async function serveDnsOnce(
  { address, port }: { readonly address: string; readonly port: number },
  answering: DnsAnswering,
): Promise<RunningDns> {
  const udp = createSocket('udp4')
  udp.bind(port, address)
  await once(udp, 'listening')
  udp.on('message', async (message, from) => {
    const reply = await replyTo(message, answering, 'udp')
    if (reply !== undefined) udp.send(reply, from.port, from.address, () => undefined)
  })
  const sockets = new Set<Socket>()
  const tcp = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    socket.once('data', async (data) => {
      const reply = await replyTo(data.subarray(2), answering, 'tcp')
      if (reply === undefined) return
      const length = Buffer.alloc(2)
      length.writeUInt16BE(reply.length)
      socket.end(Buffer.concat([length, reply]))
    })
  })
  try {
    tcp.listen(udp.address().port, address)
    await once(tcp, 'listening')
  } catch (error) {
    udp.close()
    throw error
  }
  return {
    port: udp.address().port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      tcp.close()
      udp.close()
      await once(udp, 'close')
    },
  }
}

/** The maximal sizes of UDP answers without and with EDNS. */
const [plainSize, ednsSize] = [512, 1232]

async function replyTo(
  message: Buffer,
  answering: DnsAnswering,
  transport: 'udp' | 'tcp',
): Promise<Buffer | undefined> {
  const query = decode(message)
  const [question] = query.questions ?? []
  if (question === undefined) return undefined
  const given = await answering({ ...question, name: question.name.toLowerCase() }, query, transport)
  if (given === undefined) return undefined
  const { rcode = 0, flags = 0, ...rest } = given
  // Copies the bits for "recursion desired" and "checking disabled".
  const copied = (query.flags ?? 0) & 0x0110
  const reply: Packet = {
    id: query.id ?? 0,
    type: 'response',
    questions: [question],
    ...rest,
    flags: copied | flags | rcode,
  }
  const bytes = encode(reply)
  const hasEdns = (query.additionals ?? []).some(({ type }) => type === 'OPT')
  if (transport === 'tcp' || bytes.length <= (hasEdns ? ednsSize : plainSize)) return bytes
  return encode({ ...reply, flags: (reply.flags ?? 0) | 0x0200, answers: [], authorities: [], additionals: [] })
}
