import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv4 } from 'node:net'

/** Returns the addresses of a name, or `undefined` to leave the query unanswered. `count` is 1 for the first query. */
export type NameAnswer = (name: string, family: 4 | 6, count: number) => readonly string[] | undefined

export interface NameServer extends AsyncDisposable {
  /** For `dns.Resolver`'s `setServers`. */
  readonly address: string
  /** The names of all queries, in order. */
  readonly questions: readonly string[]
}

const typeA = 1
const typeAaaa = 28
const headerBytes = 12

/** Starts a DNS server (RFC 1035) over UDP that answers queries for A and AAAA. */
export async function nameServer(answer: NameAnswer): Promise<NameServer> {
  const questions: string[] = []
  const counts = new Map<string, number>()
  const socket = createSocket('udp4')
  socket.on('message', (query, from) => {
    const { name, end } = readName(query)
    const type = query.readUInt16BE(end)
    const family = type === typeA ? 4 : type === typeAaaa ? 6 : undefined
    const key = `${name} ${type}`
    const count = (counts.get(key) ?? 0) + 1
    counts.set(key, count)
    questions.push(name)
    const addresses = family === undefined ? [] : answer(name, family, count)
    if (addresses !== undefined) socket.send(reply(query, end + 4, addresses), from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return {
    address: `127.0.0.1:${socket.address().port}`,
    questions,
    async [Symbol.asyncDispose]() {
      socket.close()
      await once(socket, 'close')
    },
  }
}

function readName(query: Buffer): { name: string; end: number } {
  const labels: string[] = []
  let at = headerBytes
  for (let length = query.readUInt8(at); length !== 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 }
}

/** Returns the question with a record for each address, whose lifetime is zero. */
function reply(query: Buffer, questionEnd: number, addresses: readonly string[]): Buffer {
  const header = Buffer.alloc(headerBytes)
  query.copy(header, 0, 0, 2)
  header.writeUInt16BE(0x8180, 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(addresses.length, 6)
  const records = addresses.map((address) => {
    const data = isIPv4(address) ? Buffer.from(address.split('.').map(Number)) : ipv6Bytes(address)
    const record = Buffer.alloc(12)
    // A pointer to the name in the question.
    record.writeUInt16BE(0xc000 + headerBytes, 0)
    record.writeUInt16BE(data.length === 4 ? typeA : typeAaaa, 2)
    record.writeUInt16BE(1, 4)
    record.writeUInt16BE(data.length, 10)
    return Buffer.concat([record, data])
  })
  return Buffer.concat([header, query.subarray(headerBytes, questionEnd), ...records])
}

function ipv6Bytes(address: string): Buffer {
  const [head = '', tail] = address.split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)))
  const [before, after] = [groups(head), tail === undefined ? [] : groups(tail)]
  const all = [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after]
  return Buffer.from(all.flatMap((group) => [group >> 8, group & 255]))
}
