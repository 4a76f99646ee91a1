/** The result of strictly parsing the bytes that a client received on a closed connection. */
export interface Reading {
  /** The status codes of the interim responses, in order. */
  readonly interim: readonly number[]
  /** Null when the connection was cut before a response. */
  readonly status: number | null
  readonly whole: boolean
  readonly body: string
}

const HEAD =
  /^HTTP\/1\.1 ([1-9]\d\d) [\t\x20-\x7e\x80-\xff]*\r\n((?:[!#$%&'*+.^_`|~\w-]+:[\t ]*[\t\x20-\x7e\x80-\xff]*\r\n)*)\r\n/
const CHUNK = /^([\da-f]{1,8})\r\n/i
const TRAILERS = /^(?:[!#$%&'*+.^_`|~\w-]+:[\t ]*[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n/

/**
 * Strictly parses one response (RFC 9112); throws when the bytes are not a response, the beginning of a response, or
 * empty.
 */
export function readAnswer(bytes: string, { method, upgrade }: { method: string; upgrade: boolean }): Reading {
  const interim: number[] = []
  for (let rest = bytes; rest !== ''; ) {
    const head = HEAD.exec(rest)
    if (head === null) throw new Error(`no head: ${JSON.stringify(rest.slice(0, 200))}`)
    const [whole, code, fields = ''] = head
    const status = Number(code)
    const body = rest.slice(whole.length)
    if (status === 101) {
      if (!upgrade || /^(content-length|transfer-encoding):/im.test(fields)) throw new Error('a switch unasked')
      return { interim, status, whole: true, body }
    }
    if (status < 200) {
      interim.push(status)
      rest = body
    } else {
      return { interim, status, ...readBody(body, fields, method === 'HEAD' || status === 204 || status === 304) }
    }
  }
  return { interim, status: null, whole: false, body: '' }
}

function readBody(rest: string, fields: string, bodiless: boolean): { whole: boolean; body: string } {
  const lengths = [...fields.matchAll(/^content-length: *(.*?)\r$/gim)].map(([, value]) => value ?? '')
  const codings = [...fields.matchAll(/^transfer-encoding: *(.*?)\r$/gim)].map(([, value]) => value)
  if (lengths.length + codings.length > 1) throw new Error('two framings')
  if (bodiless) {
    if (rest !== '') throw new Error('a body where there is none')
    return { whole: true, body: '' }
  }
  const [length] = lengths
  if (length !== undefined) {
    if (!/^\d+$/.test(length) || rest.length > Number(length)) throw new Error('more than the length says')
    return { whole: rest.length === Number(length), body: rest }
  }
  return codings.length === 1 ? readChunks(rest) : { whole: true, body: rest }
}

function readChunks(bytes: string): { whole: boolean; body: string } {
  let body = ''
  for (let rest = bytes; rest !== ''; ) {
    const [line, digits = ''] = CHUNK.exec(rest) ?? []
    if (line === undefined) throw new Error(`no chunk: ${JSON.stringify(rest.slice(0, 100))}`)
    const size = Number.parseInt(digits, 16)
    rest = rest.slice(line.length)
    if (size === 0) {
      if (TRAILERS.exec(rest)?.[0] !== rest) throw new Error('bytes behind the last chunk')
      return { whole: true, body }
    }
    body += rest.slice(0, size)
    const end = rest.slice(size, size + 2)
    if (!'\r\n'.startsWith(end)) throw new Error('a chunk without end')
    rest = rest.slice(size + 2)
  }
  return { whole: false, body }
}
