import { StringDecoder } from 'node:string_decoder'
import { readFields } from './fields.ts'

/** Turns BuildKit's messages about the steps of a build into lines for its log. */
export interface Progress {
  /** @param message a `StatusResponse` of BuildKit's control API */
  read(message: Buffer): string
  /** Returns what steps have printed without an end of line. */
  rest(): string
}

/** The numbers of fields in BuildKit's `control.proto`. */
const statusFields = { vertexes: 1, logs: 3 }
const vertexFields = { digest: 1, name: 3, cached: 4, started: 5 }
const logFields = { vertex: 1, message: 4 }

export function createProgress(): Progress {
  /** The output of each step since its last whole line. */
  const unfinished = new Map<string, string>()
  const decoders = new Map<string, StringDecoder>()
  const named = new Set<string>()

  const vertexText = (message: Buffer): string => {
    const { digest, name, cached, started } = vertexOf(message)
    // Steps of BuildKit's own are the same in every build.
    if (!started || named.has(digest) || name.startsWith('[internal]')) return ''
    named.add(digest)
    return `${oneLine(name)}${cached ? ' (from the cache)' : ''}\n`
  }
  const logText = (message: Buffer): string => {
    let [vertex, bytes] = ['', Buffer.alloc(0)]
    for (const { number, value } of readFields(message)) {
      if (typeof value === 'bigint') continue
      if (number === logFields.vertex) vertex = value.toString('utf8')
      if (number === logFields.message) bytes = Buffer.from(value)
    }
    const decoder = decoders.get(vertex) ?? new StringDecoder('utf8')
    decoders.set(vertex, decoder)
    const text = (unfinished.get(vertex) ?? '') + decoder.write(bytes)
    const end = text.length > mostUnfinished ? text.length : text.lastIndexOf('\n') + 1
    unfinished.set(vertex, text.slice(end))
    return text.slice(0, end)
  }

  return {
    read(message) {
      let lines = ''
      for (const { number, value } of readFields(message)) {
        if (typeof value === 'bigint') continue
        if (number === statusFields.vertexes) lines += vertexText(value)
        if (number === statusFields.logs) lines += logText(value)
      }
      return lines
    },
    rest: () =>
      [...unfinished.values()]
        .filter((text) => text !== '')
        .map((text) => `${text}\n`)
        .join(''),
  }
}

/** A step that prints no end of line does not fill the memory of the server. */
const mostUnfinished = 64_000

function vertexOf(message: Buffer): { digest: string; name: string; cached: boolean; started: boolean } {
  const vertex = { digest: '', name: '', cached: false, started: false }
  for (const { number, value } of readFields(message)) {
    if (number === vertexFields.digest) vertex.digest = String(value)
    if (number === vertexFields.name) vertex.name = String(value)
    if (number === vertexFields.cached) vertex.cached = value === 1n
    if (number === vertexFields.started) vertex.started = true
  }
  return vertex
}

const oneLine = (text: string): string => text.replaceAll(/\s*\n\s*/g, ' ').slice(0, 1_000)
