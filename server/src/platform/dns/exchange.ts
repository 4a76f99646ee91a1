import { createSocket } from 'node:dgram'
import { connect, isIPv6 } from 'node:net'

/** A server for DNS messages. */
export interface DnsServer {
  /** An IP address. */
  readonly address: string
  readonly port: number
}

export type DnsErrorCode = 'timeout' | 'unreachable' | 'malformed'

/** Thrown when a server gave no answer that could be understood. */
export class DnsError extends Error {
  override readonly name = 'DnsError'
  readonly code: DnsErrorCode

  constructor(code: DnsErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Makes an answer of a message; returns undefined for messages to ignore, and throws for malformed ones. */
export type ReadMessage<Answer> = (message: Buffer) => Answer | undefined

/** Far more than the records that are asked for take. Messages come from anybody's servers. */
const longestMessage = 16_384
/** No server sends more by UDP than was offered, which is less; those that do not know EDNS send 512 bytes. */
const longestDatagram = 4_096
/** As many datagrams that are no answer may come before the answer. Others may send some; only the server sends many. */
const mostStrays = 16

/**
 * Sends a message by UDP and resolves with the first answer. The socket is connected, so the system drops messages of
 * others, and its port is a random one. Rejects with `DnsError`, or with the reason of the signal.
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
      if (strays > mostStrays) fail(new DnsError('malformed', `${address} sends messages that are no answer.`))
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
export function exchangeByTcp<Answer>(
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

/** Runs an exchange and ends it as soon as it is settled or the signal aborts. */
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
