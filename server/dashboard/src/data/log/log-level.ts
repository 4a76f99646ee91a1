export type LogLevel = 'error' | 'warning' | 'info'

/** A level is within this many characters; a later word is ordinary text. */
const looksAt = 200

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are written with control characters.
const colour = /\x1b\[[0-9;:]*m/g

/** `"level":"error"`, `level=error`, and the numbers of pino and bunyan. */
const field = /(?:^|[\s,{])"?(?:level|severity|lvl)"?\s*[:=]\s*"?(\w+)/i
/** A word in capitals, or the first word of the line, after its time or the name of a program. */
const capitals = /(?:^|[^\w-])(FATAL|CRITICAL|ERROR|ERR!|WARN|WARNING|INFO|DEBUG|NOTICE|TRACE)(?!\w)/
const first =
  /^[\s[(]*(?:[\d:.,TZ+/-][\d:.,TZ+/\s-]*)?(?:(?:npm|pnpm|yarn|bun|node:\d+\))\s+)?[[(]?(fatal|error|err!|warn|warning)\b/i
/** `TypeError: …`, `panic: …`, and the beginning of a trace of Python. */
const thrown = /^(?:Uncaught\s+)?(?:[A-Z]\w*(?:Error|Exception)\b|panic:|Traceback \()/

/**
 * Returns the level that a line states: in a field of JSON or `key=value`, by a word in capitals, or by its first word.
 * A line without a level is `info`.
 */
export function levelOf(text: string): LogLevel {
  const line = plainText(text).slice(0, looksAt)
  const stated = field.exec(line)?.[1] ?? capitals.exec(line)?.[1] ?? first.exec(line)?.[1]
  if (stated !== undefined) return named(stated.toLowerCase())
  return thrown.test(line) ? 'error' : 'info'
}

function named(word: string): LogLevel {
  const number = Number(word)
  if (number >= 50 || /^(fatal|crit|err|panic|alert|emerg)/.test(word)) return 'error'
  return number >= 40 || word.startsWith('warn') ? 'warning' : 'info'
}

/** Returns a line without its colours. */
export function plainText(text: string): string {
  return text.includes('\u001b') ? text.replace(colour, '') : text
}

/** True for a line that continues the previous line, such as a call in a trace. */
export const goesOn = (text: string): boolean => /^(?:\s+\S|Caused by:)/.test(plainText(text))
