import { domainToASCII, domainToUnicode } from 'node:url'
import { type NameRefusal, quote, refuse } from './refusal.ts'
import { imitatesLatin, mixesScripts } from './scripts.ts'

/** Makes the A-label of one label, which may be in Unicode or in punycode; or tells why it cannot. */
export function encodeLabel(label: string, topLevel: string): string | NameRefusal {
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

/** Letter by letter, because the lower case of the last sigma in a word is another one. */
const lowerCase = (text: string): string => [...text].map((letter) => letter.toLowerCase()).join('')

function encodeAscii(label: string, topLevel: string): string | NameRefusal {
  if (!label.startsWith('xn--')) {
    // Kept for encodings like punycode; authorities issue no certificates for them (RFC 5890, section 2.3.1).
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
    const message = `must not have letters that can be taken for others: those of ${quote(label)} are of several scripts, or imitate Latin ones`
    return refuse('mixed_scripts', message)
  }
  // With a name after it: a label of digits alone would be taken for an IP address.
  const encoded = domainToASCII(`${label}.a`).slice(0, -2)
  if (encoded === '') return refuse('character', `must be a valid international name: ${quote(label)} is not`)
  if (domainToUnicode(encoded) !== label) {
    return refuse('not_canonical', `must be written as ${quote(domainToUnicode(encoded))} instead of ${quote(label)}`)
  }
  return encoded
}

/**
 * Tells if a label has only what names may have (RFC 5892): letters that have no other case, marks, decimal digits, hyphens,
 * and the few signs that some languages need, in their places (appendix A).
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
