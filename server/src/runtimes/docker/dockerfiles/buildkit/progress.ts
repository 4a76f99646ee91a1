import { StringDecoder } from 'node:string_decoder'
import { type ImageReference, parseImageReference } from '../../../../contract/image-reference.ts'
import { readFields } from './fields.ts'

/** Turns BuildKit's messages about the steps of a build into lines for its log. */
export interface Progress {
  /** @param message a `StatusResponse` of BuildKit's control API */
  read(message: Buffer): string
  /** Returns what steps have printed without an end of line. */
  rest(): string
  /** Returns the first image of a registry that the build could not look at; null without one. */
  failedImage(): FailedImage | null
}

/** An image that a Dockerfile begins with, copies from or is read by. */
export interface FailedImage {
  readonly reference: ImageReference
  /** Said by BuildKit, with the answer of the registry. */
  readonly reason: string
}

/** The numbers of fields in BuildKit's `control.proto`. */
const statusFields = { vertexes: 1, logs: 3 }
const vertexFields = { digest: 1, name: 3, cached: 4, started: 5, error: 7 }
const logFields = { vertex: 1, message: 4 }
/** The steps that ask registries for images. */
const imageStep =
  /^(?:(?:\[[^\]]*\] )?(?:load metadata for|FROM)|resolve image config for) (?:docker-image:\/\/)?(\S+)$/

export function createProgress(): Progress {
  /** The output of each step since its last whole line. */
  const unfinished = new Map<string, string>()
  const decoders = new Map<string, StringDecoder>()
  const named = new Set<string>()
  let failed: FailedImage | null = null

  const vertexText = (message: Buffer): string => {
    const { digest, name, cached, started, error } = vertexOf(message)
    if (error !== '') failed ??= failedImageOf(name, error)
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
    failedImage: () => failed,
  }
}

function failedImageOf(name: string, reason: string): FailedImage | null {
  // The first failure ends the steps that run beside it.
  if (reason.includes('context canceled')) return null
  const reference = parseImageReference(imageStep.exec(name)?.[1] ?? '')
  return 'problem' in reference ? null : { reference, reason }
}

/** A step that prints no end of line does not fill the memory of the server. */
const mostUnfinished = 64_000

function vertexOf(message: Buffer) {
  const vertex = { digest: '', name: '', cached: false, started: false, error: '' }
  for (const { number, value } of readFields(message)) {
    if (number === vertexFields.digest) vertex.digest = String(value)
    if (number === vertexFields.name) vertex.name = String(value)
    if (number === vertexFields.cached) vertex.cached = value === 1n
    if (number === vertexFields.started) vertex.started = true
    if (number === vertexFields.error) vertex.error = String(value)
  }
  return vertex
}

const oneLine = (text: string): string => text.replaceAll(/\s*\n\s*/g, ' ').slice(0, 1_000)
