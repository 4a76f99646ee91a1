import type { Dispatcher } from 'undici'

/** What is kept of a receiver's answer. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const limitBytes = 16 * 1024

/**
 * Reads at most 16 KiB of an answer. A longer one is cut off, with its connection; a shorter one is read to its end, so
 * that the connection can be used again. Rejects when the answer breaks off.
 */
export async function readAnswer(response: Dispatcher.ResponseData): Promise<Answer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of response.body) {
    chunks.push(chunk as Buffer)
    size += (chunk as Buffer).length
    // Leaving the loop destroys the rest.
    if (size > limitBytes) break
  }
  return {
    status: response.statusCode,
    headers: headersOf(response.headers),
    body: storableText(Buffer.concat(chunks), limitBytes),
  }
}

/** The text of any bytes, in at most `limit` bytes of UTF-8 and without NUL, which the database does not take. */
export function storableText(bytes: Buffer, limit: number): string {
  const text = bytes.subarray(0, limit).toString().replaceAll('\0', '\ufffd')
  const encoded = Buffer.from(text)
  // What is not UTF-8 grows when it is replaced. A character that the cut would halve is left out.
  return encoded.length <= limit ? text : new TextDecoder().decode(encoded.subarray(0, limit), { stream: true })
}

function headersOf(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  const entries = Object.entries(headers).map(([name, value]) => {
    const text = Array.isArray(value) ? value.join(', ') : (value ?? '')
    return [name, storableText(Buffer.from(text), limitBytes)]
  })
  return Object.fromEntries(entries)
}
