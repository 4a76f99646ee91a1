/**
 * Splits a command into words as a shell does, but supports only quotes and backslashes, because no shell runs the
 * command. Returns null when a quote is not closed.
 */
export function wordsOf(text: string): string[] | null {
  const words: string[] = []
  let word: string | undefined
  let quote = ''
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at)
    if (quote !== '') {
      if (character === quote) quote = ''
      else if (isEscape(text, at, quote)) word += text.charAt(++at)
      else word += character
    } else if (character === '"' || character === "'") {
      quote = character
      word ??= ''
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else if (isEscape(text, at, quote)) word = (word ?? '') + text.charAt(++at)
    else word = (word ?? '') + character
  }
  if (quote !== '') return null
  return word === undefined ? words : [...words, word]
}

/**
 * True for a backslash that escapes the next character: anywhere outside of quotes, and in double quotes before these
 * two.
 */
function isEscape(text: string, at: number, quote: string): boolean {
  if (text.charAt(at) !== '\\' || at + 1 >= text.length || quote === "'") return false
  return quote === '' || /["\\]/.test(text.charAt(at + 1))
}

/** Writes a command as a text that `wordsOf` splits into the same words. */
export function textOfWords(words: readonly string[]): string {
  return words.map(quoted).join(' ')
}

function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word
  // In double quotes, a shell interprets more than `wordsOf` does.
  if (word.includes("'") && !/["\\$`!]/.test(word)) return `"${word}"`
  return `'${word.replaceAll("'", `'"'"'`)}'`
}
