import { randomInt } from 'node:crypto'
import { DnsError, type DnsServer, exchangeByTcp, exchangeByUdp } from './exchange.ts'
import { canBeAsked, type DnsAnswer, type DnsQuestion, decodeAnswer, encodeQuery } from './message.ts'

/** The time for an answer by UDP: for the first message, and for the second one. */
const udpWaitsMs = [1_000, 2_000]
const tcpWaitMs = 3_000

/**
 * Asks one server: by UDP, twice if need be, then by TCP when the answer was truncated. Rejects with `DnsError` when the
 * server gives no answer, and with the reason of the signal when it aborts.
 */
export async function query(server: DnsServer, question: DnsQuestion, signal: AbortSignal): Promise<DnsAnswer> {
  if (!canBeAsked(question.name))
    throw new DnsError('malformed', 'The name is too long, or has characters that no name in DNS has.')
  const answer = await queryWith(server, question, true, signal)
  // Some servers do not know EDNS, and say so in one of these ways (RFC 6891, section 7).
  const knowsEdns = !['FORMERR', 'NOTIMP'].includes(answer.rcode) && !answer.rcode.startsWith('EXTENDED_')
  return knowsEdns ? answer : queryWith(server, question, false, signal)
}

async function queryWith(
  server: DnsServer,
  question: DnsQuestion,
  edns: boolean,
  signal: AbortSignal,
): Promise<DnsAnswer> {
  // Another number for each message: others must not guess it (RFC 5452).
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
