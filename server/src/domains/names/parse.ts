import { isIP } from 'node:net'
import { domainToUnicode } from 'node:url'
import { encodeLabel } from './labels.ts'
import { type OwnNames, ownNameRefusal } from './own-names.ts'
import { type NameRefusal, quote, refuse } from './refusal.ts'
import { isSpecialUse, specialUseRefusal, suffixRefusal } from './suffixes.ts'

/** A name as it is stored, or why it cannot be a domain of an app. */
export type ParsedName =
  | {
      readonly ok: true
      /** In lower case and A-labels (RFC 5890); a wildcard begins with `*.`. */
      readonly name: string
    }
  | ({ readonly ok: false } & NameRefusal)

/** More than any name in Unicode has. */
const longestText = 1_000

/** Reads the name of a domain as a person writes it. Never throws; a name that it returned gives itself again. */
export function parseDomainName(text: string, own: OwnNames): ParsedName {
  const read = readName(text.trim())
  if (typeof read !== 'string') return { ok: false, ...read }
  const refusal = ownNameRefusal(read, own) ?? suffixRefusal(read)
  return refusal === undefined ? { ok: true, name: read } : { ok: false, ...refusal }
}

/** Returns a stored name as people read it. */
export const unicodeName = (name: string): string =>
  name
    .split('.')
    // Label by label: the name as a whole may be longer than the function takes.
    .map((label) => (label.startsWith('xn--') ? domainToUnicode(label) : label))
    .join('.')

function readName(text: string): string | NameRefusal {
  if (text === '') return refuse('empty', 'must not be empty: a domain is a name such as shop.example.com')
  if (text.length > longestText) return tooLong
  // Other full stops are those of Chinese and Japanese keyboards (UTS 46).
  const plain = text.replace(/[。．｡]/g, '.')
  const refusal = addressRefusal(plain)
  if (refusal !== undefined) return refusal
  if (/^[^.]+(\.[^.]+)*\.$/.test(plain)) {
    return refuse('trailing_dot', `must not end in a dot: write ${quote(plain.slice(0, -1))}`)
  }
  const [first = '', ...rest] = plain.split('.')
  const isWildcard = first === '*' && rest.length > 0
  const labels = isWildcard ? rest : [first, ...rest]
  if (labels.some((label) => label.includes('*'))) {
    return refuse('wildcard_place', 'must have * only as the whole first part, as in *.example.com')
  }
  return encodeLabels(labels, isWildcard)
}

function encodeLabels(labels: readonly string[], isWildcard: boolean): string | NameRefusal {
  const last = labels[labels.length - 1] ?? ''
  const topLevel = last.toLowerCase().startsWith('xn--') ? domainToUnicode(last) : last
  const encoded: string[] = []
  for (const label of labels) {
    const result = encodeLabel(label, topLevel)
    if (typeof result !== 'string') return result
    if (result.length > 63) {
      return refuse(
        'label_too_long',
        `must have at most 63 characters between two dots: ${quote(label)} has ${result.length}`,
      )
    }
    encoded.push(result)
  }
  if (encoded.length < 2) {
    if (isSpecialUse(encoded[0] ?? '')) return specialUseRefusal(encoded[0] ?? '')
    const message = isWildcard ? '*.example.com' : 'example.com or www.example.com'
    return refuse(
      isWildcard ? 'wildcard_of_suffix' : 'single_label',
      `must be a whole name with a dot, such as ${message}`,
    )
  }
  const name = `${isWildcard ? '*.' : ''}${encoded.join('.')}`
  if (name.length > 253) return tooLong
  return name
}

const tooLong = refuse('name_too_long', 'must have at most 253 characters')

/** Finds what belongs to addresses, and not to names. */
function addressRefusal(text: string): NameRefusal | undefined {
  const bare = text.replace(/^\[|\](:\d*)?$/g, '')
  if (isIP(bare) !== 0 || isIP(text.replace(/:\d*$/, '')) !== 0 || endsInNumber(text)) {
    return refuse('ip_address', 'must be a name, not an IP address: certificates and DNS records are for names')
  }
  if (/^[a-z][a-z0-9+.-]*:\/\/|[/?#\\]/i.test(text)) {
    return refuse(
      'url',
      `must be a name alone${insteadOf(text)}, without https:// before it and without a path after it`,
    )
  }
  if (text.includes('@')) return refuse('user', `must be a name alone${insteadOf(text)}, without anything before an @`)
  if (text.includes(':')) return refuse('port', `must be a name alone${insteadOf(text)}, without a port`)
  return undefined
}

/** Such as 127.1 and 0x7f.1, which browsers take for addresses (WHATWG URL, "ends in a number"). */
const endsInNumber = (text: string): boolean => /^([^/@]*\.)?(\d+|0x[0-9a-f]*)\.?$/i.test(text)

/** Returns the name in the address that somebody has pasted, if there is one. */
function insteadOf(text: string): string {
  const address = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `https://${text.replace(/^\/+/, '')}`
  const host = URL.parse(address)?.hostname ?? ''
  return host.includes('.') ? `, ${quote(host)}` : ''
}
