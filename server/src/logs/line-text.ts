import { maskRanges } from './masking.ts'
import type { Range } from './pattern-search.ts'

/** Longer lines are cut when they are read, in bytes. */
export const longestLine = 4 * 1024

const carriageReturn = 0x0d

/** Returns a line with its secrets masked, cut at 4 KB between characters, and harmless for a terminal. */
export function lineText(bytes: Buffer, secrets: readonly Range[], line: Range): string {
  const { from } = line
  const to = line.to > from && bytes[line.to - 1] === carriageReturn ? line.to - 1 : line.to
  if (to - from <= longestLine) return escapeControls(maskRanges(bytes, secrets, { from, to }))
  let end = from + longestLine
  // Never cut within a character: its further bytes begin with the bits 10.
  while (end > from + longestLine - 4 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return `${escapeControls(maskRanges(bytes, secrets, { from, to: end }))}…`
}

// The first alternative matches colours and other renditions (ECMA-48, 8.3.117), the only sequences that are kept.
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern finds control characters.
const control = /\x1b\[[0-9;:]*m|[\x00-\x08\x0a-\x1f\x7f-\x9f]/g

/**
 * Replaces every control character except colours by its symbol (`␛`), so that a log neither moves a terminal's cursor
 * nor sets its title or its clipboard, and still shows every character that was written.
 */
export function escapeControls(text: string): string {
  return text.replace(control, (found) => {
    if (found.length > 1) return found
    const code = found.charCodeAt(0)
    if (code === 0x7f) return '␡'
    // An 8-bit control abbreviates ESC and a letter (ECMA-48, 5.3).
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : `␛${String.fromCharCode(code - 0x40)}`
  })
}
