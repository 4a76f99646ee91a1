/**
 * Invisible characters, and characters that change the order of text, make a text look like another (Unicode Technical
 * Report 36, sections 2.9 and 3.5). Some scripts and emojis need joiners, but not next to ASCII.
 */
const invisible =
  /\u034f|\u17b4|\u17b5|[\u180b-\u180f]|[\u00ad\u061c\u115f\u1160\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]|(?<=^|[ -~])[\u200c\u200d]|[\u200c\u200d](?=[ -~]|$)/u

export const hasInvisible = (text: string): boolean => invisible.test(text)

/** Replaces each such character by its code point, such as `[U+202E]`. */
export const withVisible = (text: string): string =>
  text.replace(new RegExp(invisible, 'gu'), (character) => `[U+${hexOf(character)}]`)

const hexOf = (character: string): string => (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
