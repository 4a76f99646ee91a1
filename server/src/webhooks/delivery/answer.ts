import type { Dispatcher } from 'undici'

/** The part of an endpoint's answer that is kept. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const limitBytes = 16 * 1024

/**
 * Reads at most 16 KiB of an answer. A longer one is cut off together with its connection; a shorter one is read to its
 * end, so that the connection can be reused. Rejects when the answer breaks off.
 */
export async function readAnswer(response: Dispatcher.ResponseData): Promise<Answer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of response.body) {
    chunks.push(chunk as Buffer)
    size += (chunk as Buffer).length
    // Leaving the loop destroys the stream and its connection.
    if (size > limitBytes) break
  }
  return {
    status: response.statusCode,
    headers: headersOf(response.headers),
    body: storableText(Buffer.concat(chunks), limitBytes),
  }
}

/** Returns any bytes as text of at most `limit` bytes of UTF-8, without NUL, which PostgreSQL does not store. */
export function storableText(bytes: Buffer, limit: number): string {
  const text = bytes.subarray(0, limit).toString().replaceAll('\0', '\ufffd')
  const encoded = Buffer.from(text)
  // Bytes that are not UTF-8 become longer when they are replaced. A character that the cut would split is left out.
  return encoded.length <= limit ? text : new TextDecoder().decode(encoded.subarray(0, limit), { stream: true })
}

function headersOf(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  const entries = Object.entries(headers).map(([name, value]) => {
    const text = Array.isArray(value) ? value.join(', ') : (value ?? '')
    return [name, storableText(Buffer.from(text), limitBytes)]
  })
  return Object.fromEntries(entries)
}
