import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { connect, isIPv6 } from 'node:net'
import { canBeAsked, type DnsAnswer, type DnsQuestion, decodeAnswer, encodeQuery } from './messages.ts'

export interface DnsServer {
  readonly address: string
  readonly port: number
}

export type DnsErrorCode = 'timeout' | 'unreachable' | 'malformed'

export class DnsError extends Error {
  override readonly name = 'DnsError'
  readonly code: DnsErrorCode

  constructor(code: DnsErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Decodes a message. Returns undefined for a message to ignore; throws for a malformed message. */
export type ReadMessage<Answer> = (message: Buffer) => Answer | undefined

/** Far more than valid answers need. Messages come from untrusted servers. */
const longestMessage = 16_384
/** Servers send at most the UDP size in the query, which is lower; servers without EDNS send at most 512 bytes. */
const longestDatagram = 4_096
/** The most datagrams to ignore before the answer. Third parties may send a few; only the server itself sends many. */
const mostStrays = 16

/**
 * Sends a message by UDP and resolves with the first answer. The socket is connected, so the system drops messages
 * from other addresses. Its port is random. Rejects with `DnsError`, or with the reason of the signal.
 */
export function exchangeByUdp<Answer>(
  { address, port }: DnsServer,
  message: Buffer,
  read: ReadMessage<Answer>,
  signal: AbortSignal,
): Promise<Answer> {
  return settleBy(signal, (succeed, fail) => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4')
    let strays = 0
    const ignore = () => {
      strays += 1
      if (strays > mostStrays) fail(new DnsError('malformed', `${address} sends messages that are not an answer.`))
    }
    socket.on('error', fail)
    socket.on('message', (received) => {
      if (strays > mostStrays) return
      if (received.length > longestDatagram) ignore()
      else attempt(() => read(received), succeed, fail, ignore)
    })
    socket.connect(port, address, () => socket.send(message))
    return () => socket.close()
  })
}

/** Sends a message by TCP (RFC 7766) and resolves with the first answer. Rejects as `exchangeByUdp` does. */
function exchangeByTcp<Answer>(
  { address, port }: DnsServer,
  message: Buffer,
  read: ReadMessage<Answer>,
  signal: AbortSignal,
): Promise<Answer> {
  return settleBy(signal, (succeed, fail) => {
    const socket = connect({ host: address, port })
    let received = Buffer.alloc(0)
    socket.on('error', fail)
    socket.on('end', () => fail(new DnsError('malformed', `${address} ended the connection before its answer.`)))
    socket.on('connect', () => socket.write(Buffer.concat([lengthOf(message), message])))
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      const length = received.length < 2 ? undefined : received.readUInt16BE(0)
      if (length === undefined) return
      if (length > longestMessage) return fail(new DnsError('malformed', `${address} gave an answer that is too long.`))
      if (received.length < 2 + length) return
      const answer = received.subarray(2, 2 + length)
      const unasked = () => fail(new DnsError('malformed', `${address} answered another question.`))
      attempt(() => read(answer), succeed, fail, unasked)
    })
    return () => socket.destroy()
  })
}

function lengthOf(message: Buffer): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(message.length)
  return length
}

function attempt<Answer>(
  read: () => Answer | undefined,
  succeed: (answer: Answer) => void,
  fail: (error: Error) => void,
  otherwise: () => void,
): void {
  try {
    const answer = read()
    if (answer === undefined) otherwise()
    else succeed(answer)
  } catch (error) {
    fail(new DnsError('malformed', 'The answer cannot be read.', { cause: error }))
  }
}

function settleBy<Answer>(
  signal: AbortSignal,
  begin: (succeed: (answer: Answer) => void, fail: (error: Error) => void) => () => void,
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  if (signal.aborted) return Promise.reject(signal.reason)
  const abort = () => reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  const fail = (error: Error) =>
    reject(error instanceof DnsError ? error : new DnsError('unreachable', error.message, { cause: error }))
  const end = begin(resolve, fail)
  return promise.finally(() => {
    signal.removeEventListener('abort', abort)
    end()
  })
}

const udpWaitsMs = [1_000, 2_000]
const tcpWaitMs = 3_000

/**
 * Asks one server: by UDP, at most twice, then by TCP when the answer was truncated. Rejects with `DnsError` when the
 * server gives no answer, and with the reason of the signal when it aborts.
 */
export async function query(server: DnsServer, question: DnsQuestion, signal: AbortSignal): Promise<DnsAnswer> {
  if (!canBeAsked(question.name))
    throw new DnsError('malformed', 'The name is too long, or has characters that no name in DNS has.')
  const answer = await queryWith(server, question, true, signal)
  // Servers without EDNS report this in one of these ways (RFC 6891, section 7).
  const knowsEdns = !['FORMERR', 'NOTIMP'].includes(answer.rcode) && !answer.rcode.startsWith('EXTENDED_')
  return knowsEdns ? answer : queryWith(server, question, false, signal)
}

async function queryWith(
  server: DnsServer,
  question: DnsQuestion,
  edns: boolean,
  signal: AbortSignal,
): Promise<DnsAnswer> {
  // Each message gets a random id, which others must not guess (RFC 5452).
  const message = () => {
    const id = randomInt(0x10000)
    return { bytes: encodeQuery(id, question, edns), read: (answer: Buffer) => decodeAnswer(answer, id, question) }
  }
  const byUdp = async (): Promise<DnsAnswer> => {
    for (const [index, waitMs] of udpWaitsMs.entries()) {
      const { bytes, read } = message()
      try {
        return await within(server, waitMs, signal, (limited) => exchangeByUdp(server, bytes, read, limited))
      } catch (error) {
        signal.throwIfAborted()
        if (!isTimeout(error) || index === udpWaitsMs.length - 1) throw error
      }
    }
    throw silent(server)
  }
  const answer = await byUdp()
  if (!answer.isTruncated) return answer
  const { bytes, read } = message()
  return within(server, tcpWaitMs, signal, (limited) => exchangeByTcp(server, bytes, read, limited))
}

const isTimeout = (error: unknown): boolean => error instanceof DnsError && error.code === 'timeout'

const silent = ({ address }: DnsServer): DnsError => new DnsError('timeout', `${address} does not answer.`)

async function within<Answer>(
  server: DnsServer,
  waitMs: number,
  signal: AbortSignal,
  exchange: (limited: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(waitMs)])
  try {
    return await exchange(limited)
  } catch (error) {
    signal.throwIfAborted()
    throw limited.aborted ? silent(server) : error
  }
}
