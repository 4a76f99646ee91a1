/**
 * Characters that nobody sees, and those that change the order of the text around them: with one, a text looks like another one
 * (Unicode Technical Report 36, sections 2.9 and 3.5). Joiners are needed within some scripts and emojis, but not beside ASCII.
 */
const invisible =
  /\u034f|\u17b4|\u17b5|[\u180b-\u180f]|[\u00ad\u061c\u115f\u1160\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]|(?<=^|[ -~])[\u200c\u200d]|[\u200c\u200d](?=[ -~]|$)/u

/** True for a text with characters that nobody sees, or that change its direction. */
export const hasInvisible = (text: string): boolean => invisible.test(text)

/** Returns a text with the code point of each such character in its place, such as `[U+202E]`. */
export const withVisible = (text: string): string =>
  text.replace(new RegExp(invisible, 'gu'), (character) => `[U+${hexOf(character)}]`)

const hexOf = (character: string): string => (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
