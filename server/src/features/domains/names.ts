import { isIP } from 'node:net'
import { domainToASCII, domainToUnicode } from 'node:url'
import { parse } from 'tldts'
import { isOpenSuffix } from './open-suffixes.ts'

export type ParsedName =
  | {
      readonly ok: true
      /** The name in lower case and A-labels (RFC 5890); a wildcard begins with `*.`. */
      readonly name: string
    }
  | ({ readonly ok: false } & NameRefusal)

/** Longer than any name in Unicode. */
const longestText = 1_000

/** Parses a domain name as a user types it. Never throws. A returned name parses to itself. */
export function parseDomainName(text: string, own: OwnNames): ParsedName {
  const read = readName(text.trim())
  if (typeof read !== 'string') return { ok: false, ...read }
  const refusal = ownNameRefusal(read, own) ?? suffixRefusal(read)
  return refusal === undefined ? { ok: true, name: read } : { ok: false, ...refusal }
}

export const unicodeName = (name: string): string =>
  name
    .split('.')
    // Label by label, because the full name may be too long for the function.
    .map((label) => (label.startsWith('xn--') ? domainToUnicode(label) : label))
    .join('.')

function readName(text: string): string | NameRefusal {
  if (text === '') return refuse('empty', 'must not be empty: a domain is a name such as shop.example.com')
  if (text.length > longestText) return tooLong
  // Chinese and Japanese keyboards have other full stops (UTS 46).
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

/** Refuses what belongs to an address and not to a name. */
function addressRefusal(text: string): NameRefusal | undefined {
  const bare = text.replace(/^\[|\](:\d*)?$/g, '')
  if (isIP(bare) !== 0 || isIP(text.replace(/:\d*$/, '')) !== 0 || endsInNumber(text)) {
    return refuse('ip_address', 'must be a name, not an IP address: certificates and DNS records are for names')
  }
  if (/^[a-z][a-z0-9+.-]*:\/\/|[/?#\\]/i.test(text)) {
    return refuse(
      'url',
      `must be only a name${insteadOf(text)}, without https:// before it and without a path after it`,
    )
  }
  if (text.includes('@')) return refuse('user', `must be only a name${insteadOf(text)}, without anything before an @`)
  if (text.includes(':')) return refuse('port', `must be only a name${insteadOf(text)}, without a port`)
  return undefined
}

/** True for texts such as 127.1 and 0x7f.1, which browsers take for addresses (WHATWG URL, "ends in a number"). */
const endsInNumber = (text: string): boolean => /^([^/@]*\.)?(\d+|0x[0-9a-f]*)\.?$/i.test(text)

/** Returns a suggestion with the name in a pasted address, if there is one. */
function insteadOf(text: string): string {
  const address = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `https://${text.replace(/^\/+/, '')}`
  const host = URL.parse(address)?.hostname ?? ''
  return host.includes('.') ? `, ${quote(host)}` : ''
}

/** Returns the A-label of a label in Unicode or punycode, or why there is none. */
function encodeLabel(label: string, topLevel: string): string | NameRefusal {
  if (label === '') return refuse('empty_label', 'must have something between all of its dots')
  if (label.includes('_')) {
    return refuse('underscore', `must have no underscore: ${quote(label)} cannot be part of the name of a web site`)
  }
  if (label.startsWith('-') || label.endsWith('-')) {
    return refuse('hyphen', `must have letters or digits at both ends of ${quote(label)}, not a hyphen`)
  }
  if (/^[a-z0-9-]+$/i.test(label)) return encodeAscii(label.toLowerCase(), topLevel)
  return encodeUnicode(lowerCase(label.normalize('NFC')), topLevel)
}

/** Converts letter by letter, because a sigma at the end of a word has a different lower case. */
const lowerCase = (text: string): string => [...text].map((letter) => letter.toLowerCase()).join('')

function encodeAscii(label: string, topLevel: string): string | NameRefusal {
  if (!label.startsWith('xn--')) {
    // Reserved for encodings like punycode; authorities issue no certificates for such labels (RFC 5890, section
    // 2.3.1).
    return label.slice(2, 4) === '--'
      ? refuse('reserved_label', `must not have two hyphens as the third and fourth character of ${quote(label)}`)
      : label
  }
  const decoded = domainToUnicode(label)
  if (decoded === '' || decoded.startsWith('xn--') || /^[ -~]*$/.test(decoded)) {
    return refuse('punycode', `must be valid punycode after xn--: ${quote(label)} is not`)
  }
  const encoded = encodeUnicode(decoded, topLevel)
  if (encoded === label || typeof encoded !== 'string') return encoded
  return refuse('not_canonical', `must be written as ${quote(encoded)} instead of ${quote(label)}`)
}

/** @param label in NFC and lower case */
function encodeUnicode(label: string, topLevel: string): string | NameRefusal {
  if (/\p{Extended_Pictographic}|\p{Regional_Indicator}|\u{20e3}|\u{fe0f}/u.test(label)) {
    return refuse('emoji', 'must have no emoji: registries and certificate authorities refuse them')
  }
  if (!hasOnlyLetters(label)) {
    return refuse('character', `must have only letters, digits and hyphens: ${quote(label)} has something else`)
  }
  if (mixesScripts(label) || imitatesLatin(label, topLevel)) {
    const message = `must not have letters that look like other letters: ${quote(label)} mixes several scripts, or imitates Latin letters`
    return refuse('mixed_scripts', message)
  }
  // Adds a label, because a label of digits would be taken for an IP address.
  const encoded = domainToASCII(`${label}.a`).slice(0, -2)
  if (encoded === '') return refuse('character', `must be a valid international name: ${quote(label)} is not`)
  if (domainToUnicode(encoded) !== label) {
    return refuse('not_canonical', `must be written as ${quote(domainToUnicode(encoded))} instead of ${quote(label)}`)
  }
  return encoded
}

/**
 * True when a label has only characters that names may have (RFC 5892): letters without another case, marks, decimal
 * digits, hyphens, and the few signs that some languages need, in their places (appendix A).
 */
function hasOnlyLetters(label: string): boolean {
  const plain = label
    .replace(/(?<=l)·(?=l)/gu, '')
    .replace(/\u{375}(?=\p{Script=Greek})/gu, '')
    .replace(/(?<=\p{Script=Hebrew})[\u{5f3}\u{5f4}]/gu, '')
    .replace(/(?<=\p{M})[\u{200c}\u{200d}]|(?<=\p{Script=Arabic})\u{200c}(?=\p{Script=Arabic})/gu, '')
  const middleDot = /[\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Han}]/u.test(plain)
    ? plain.replaceAll('・', '')
    : plain
  return /^[\p{Ll}\p{Lo}\p{Lm}\p{Mn}\p{Mc}\p{Nd}-]*$/u.test(middleDot)
}

/** The combinations of scripts that people use within a word (UTS 39, section 5.2, "highly restrictive"). */
const written: readonly (readonly string[])[] = [
  ['Latin', 'Han', 'Hiragana', 'Katakana'],
  ['Latin', 'Han', 'Bopomofo'],
  ['Latin', 'Han', 'Hangul'],
]

/** The scripts with letters that look like letters of another script; every other script is `Other`. */
const scripts = [
  ...['Latin', 'Cyrillic', 'Greek', 'Armenian', 'Cherokee', 'Georgian', 'Hebrew', 'Arabic', 'Thai', 'Devanagari'],
  ...['Han', 'Hiragana', 'Katakana', 'Bopomofo', 'Hangul'],
] as const
const patterns = scripts.map((name) => ({
  name: name as string,
  letter: new RegExp(`\\p{Script_Extensions=${name}}`, 'u'),
}))

/** Letters that look like Latin letters and can form whole words, such as `аррӏе`. */
const lookAlikes = [
  { letters: /^[асԁеһіјӏорԛѕԝхуъьүѵѡ0-9-]+$/u, script: 'Cyrillic' },
  { letters: /^[αικνρυωηοτ0-9-]+$/u, script: 'Greek' },
] as const

/** True when a label mixes scripts that nobody writes together, such as one Cyrillic `а` in a Latin word. */
function mixesScripts(label: string): boolean {
  const letters = [...label].filter((character) => /\p{L}/u.test(character))
  const possible = letters.map(scriptsOf)
  const allowed = [...written, ...scripts.map((name) => [name as string]), ['Other']]
  return !allowed.some((together) => possible.every((some) => some.some((name) => together.includes(name))))
}

/** A letter can belong to several scripts, like the Japanese prolonged sound mark. */
function scriptsOf(letter: string): string[] {
  const found = patterns.filter((script) => script.letter.test(letter)).map(({ name }) => name)
  return found.length > 0 ? found : ['Other']
}

/** True when a whole label can be read as a Latin word, below a top-level domain in a different script. */
function imitatesLatin(label: string, topLevel: string): boolean {
  return lookAlikes.some(({ letters, script }) => {
    const isOfScript = new RegExp(`\\p{Script=${script}}`, 'u')
    return letters.test(label) && isOfScript.test(label) && !isOfScript.test(topLevel)
  })
}

/** Top-level names outside the public DNS (RFC 6761 and the registry that it began; `internal` by ICANN, 2024). */
const specialUse: ReadonlySet<string> = new Set([
  'alt',
  'arpa',
  'example',
  'internal',
  'invalid',
  'local',
  'localhost',
  'onion',
  'test',
])

const options = { allowPrivateDomains: true, extractHostname: false, validateHostname: false } as const

/**
 * Returns the registered part of a name, such as `example.co.uk`; null for a public suffix itself.
 *
 * @param name without `*.`
 */
export const registrableDomain = (name: string): string | null => parse(name, options).domain

const isSpecialUse = (topLevel: string): boolean => specialUse.has(topLevel)

const specialUseRefusal = (topLevel: string): NameRefusal =>
  refuse('special_use', `must be a name of the public DNS, which has no names that end in .${topLevel}`)

/** Refuses a name below a suffix of the Public Suffix List under which customers cannot hold domains. */
function suffixRefusal(name: string): NameRefusal | undefined {
  const isWildcard = name.startsWith('*.')
  const base = isWildcard ? name.slice(2) : name
  const topLevel = base.slice(base.lastIndexOf('.') + 1)
  if (isSpecialUse(topLevel)) return specialUseRefusal(topLevel)
  const { domain, isPrivate, publicSuffix } = parse(base, options)
  const suffix = publicSuffix ?? topLevel
  if (isPrivate === true && !isOpenSuffix(suffix)) {
    return refuse('platform_name', `must be your domain: names below ${suffix} belong to another platform`)
  }
  if (domain !== null) return undefined
  return isWildcard
    ? refuse(
        'wildcard_of_suffix',
        `must be a wildcard of one domain: *.${suffix} would cover the domains of other people`,
      )
    : refuse(
        'public_suffix',
        `must be a domain below ${suffix}, such as example.${suffix}: other people register domains below ${suffix}, too`,
      )
}

interface OwnNames {
  /** The domain below which apps have host names; null when apps have ports. */
  readonly domain: string | null
  /** The host of the dashboard and the API; null when it has no name. */
  readonly dashboardHost: string | null
}

/** Refuses the server's own names, and wildcards that would cover them. */
function ownNameRefusal(name: string, { domain, dashboardHost }: OwnNames): NameRefusal | undefined {
  const own = [domain, dashboardHost].flatMap((each) => (each === null ? [] : [each.toLowerCase()]))
  const isWildcard = name.startsWith('*.')
  const base = isWildcard ? name.slice(2) : name
  const around = own.find((each) => base === each || base.endsWith(`.${each}`))
  if (around !== undefined) {
    return refuse('own_name', `must be your domain: ${around} and all names below it belong to this server`)
  }
  const covered = isWildcard ? own.find((each) => each.slice(each.indexOf('.') + 1) === base) : undefined
  if (covered === undefined) return undefined
  return refuse(
    'covers_own_name',
    `must not cover ${covered}, which is a name of this server: add the names that you need one by one`,
  )
}

/** The reasons why a name cannot be a domain of an app. They are stable, for programs and tests. */
export type NameRefusalCode =
  | 'empty'
  | 'url'
  | 'port'
  | 'user'
  | 'ip_address'
  | 'trailing_dot'
  | 'empty_label'
  | 'single_label'
  | 'label_too_long'
  | 'name_too_long'
  | 'hyphen'
  | 'reserved_label'
  | 'underscore'
  | 'character'
  | 'emoji'
  | 'punycode'
  | 'not_canonical'
  | 'mixed_scripts'
  | 'wildcard_place'
  | 'wildcard_of_suffix'
  | 'public_suffix'
  | 'platform_name'
  | 'special_use'
  | 'own_name'
  | 'covers_own_name'

interface NameRefusal {
  readonly code: NameRefusalCode
  /** The advice, which follows the name of a field. */
  readonly message: string
}

function refuse(code: NameRefusalCode, message: string): NameRefusal {
  return { code, message }
}

/** Returns a stranger's text for messages: one line of visible characters, limited in length. */
function quote(text: string): string {
  const seen = text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '\u{fffd}')
  return `“${[...seen].length > 60 ? `${[...seen].slice(0, 60).join('')}…` : seen}”`
}
