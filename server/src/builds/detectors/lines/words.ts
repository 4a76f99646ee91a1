/** A word of a shell line. */
export interface Word {
  /** The word without quotes. */
  readonly text: string
  /** Offsets in the line, from the first character to after the last. */
  readonly from: number
  readonly to: number
}

const token =
  /\s+|(#[^\n]*)|(&&|\|\||[;|&()\n])|((?:\d*>>?|<)(?:&\d)?\s*\S*)|((?:[^\s"'\\;|&()<>]|\\[\s\S]|"(?:[^"\\]|\\[\s\S])*"|'[^']*')+)|[\s\S]/y

/**
 * Splits a shell line into its commands, each of one word or more. It is only read, never run: what a shell would expand stays as it is written.
 * Redirections and comments are left out.
 */
export function splitLine(line: string): readonly (readonly Word[])[] {
  const commands: Word[][] = [[]]
  token.lastIndex = 0
  for (let match = token.exec(line); match !== null; match = token.exec(line)) {
    const [text, , operator, , word] = match
    if (operator !== undefined) commands.push([])
    else if (word !== undefined) {
      commands.at(-1)?.push({ text: unquote(word), from: match.index, to: match.index + text.length })
    }
    if (token.lastIndex >= line.length) break
  }
  return commands.filter((words) => words.length > 0)
}

const unquote = (word: string): string =>
  word.replace(/"((?:[^"\\]|\\[\s\S])*)"|'([^']*)'|\\([\s\S])/g, (_, double, single, escaped) =>
    String(double === undefined ? (single ?? escaped) : double.replace(/\\(["\\$`])/g, '$1')),
  )
