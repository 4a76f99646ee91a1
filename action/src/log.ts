import { randomUUID } from 'node:crypto'
import { endGroup, info, startGroup } from '@actions/core'

/** Prints a line that begins with our own text. Untrusted text in it cannot start a new line or a workflow command. */
export function logLine(text: string): void {
  info(oneLine(text))
}

/** Removes line breaks and control characters, so that within a line the runner sees no command in the text. */
export function oneLine(text: string): string {
  return text.replace(/\p{Cc}+/gu, ' ').replaceAll('##[', '## [')
}

/** Prints untrusted lines unchanged, with the runner's workflow commands disabled meanwhile. */
export function logRaw(lines: readonly string[]): void {
  const token = randomUUID()
  info(`::stop-commands::${token}`)
  info(lines.join('\n'))
  info(`::${token}::`)
}

/** Prints untrusted lines in a group that can be folded. */
export function logGroup(title: string, lines: readonly string[]): void {
  startGroup(title)
  logRaw(lines)
  endGroup()
}

/** Creates a group that starts with its first lines and ends when `close` is called. */
export function createOpenGroup(title: string) {
  let open = false
  return {
    print(lines: readonly string[]): void {
      if (!open) startGroup(title)
      open = true
      logRaw(lines)
    },
    close(): void {
      if (open) endGroup()
      open = false
    },
  }
}

/** Formats a duration in milliseconds, such as `2 min 5 s`. */
export function elapsed(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000)
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}
