import type { Dispatcher } from 'undici'
import type { Outbound } from '../../platform/outbound.ts'
import { TokenRefused } from './refusal.ts'

/** The time for one answer as a whole, in milliseconds. */
const timeoutMs = 5_000
const mostBytes = 256 * 1024

/**
 * Reads a JSON object of an issuer, where the outbound rule allows its address. It follows no redirect, and reads no
 * more than 256 KB within 5 s.
 *
 * @throws TokenRefused
 */
export async function fetchJson(url: URL, outbound: Outbound): Promise<Readonly<Record<string, unknown>>> {
  const text = await fetchText(url, outbound).catch((error: unknown) => {
    if (error instanceof TokenRefused) throw error
    if (error instanceof Error && error.name === 'TimeoutError') {
      throw new TokenRefused('issuer_slow', `${url.host} did not answer within ${timeoutMs / 1000} s.`)
    }
    // The error itself stays inside: it could tell names and addresses of the server's own network.
    throw new TokenRefused('issuer_unreachable', `${url.host} cannot be reached from this server.`)
  })
  const value = parse(text)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>
  }
  throw new TokenRefused('issuer_answer', `${url.host} answered with no JSON object.`)
}

async function fetchText(url: URL, outbound: Outbound): Promise<string> {
  if (url.port !== '' && !outbound.allowsPort(Number(url.port))) throw new Error('the port is not allowed')
  // Literal addresses are not looked up when the connection is made.
  await outbound.resolve(url.hostname)
  // Loaded for the first token: a server without trust does not need the memory of the library.
  const { Agent, request } = await import('undici')
  const agent = new Agent({ connect: { lookup: outbound.lookup, timeout: timeoutMs } })
  try {
    const response = await request(url, {
      dispatcher: agent,
      headers: { accept: 'application/json' },
      signal: AbortSignal.timeout(timeoutMs),
    })
    return await read(url, response)
  } finally {
    await agent.destroy()
  }
}

async function read(url: URL, { statusCode, body }: Dispatcher.ResponseData): Promise<string> {
  if (statusCode >= 300 && statusCode < 400) {
    throw new TokenRefused('issuer_redirects', `${url.host} redirects, which is not followed.`)
  }
  if (statusCode !== 200) throw new TokenRefused('issuer_answer', `${url.host} answered with ${statusCode}.`)
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > mostBytes) {
      throw new TokenRefused('issuer_answer', `${url.host} answered with more than ${mostBytes / 1024} KB.`)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
