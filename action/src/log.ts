import { randomUUID } from 'node:crypto'
import { endGroup, info, startGroup } from './runner.ts'

/** Prints one line that begins with words of ours. What else is in it can neither break it nor be read as a command. */
export function logLine(text: string): void {
  info(oneLine(text))
}

/** A text without line breaks and control characters, which no runner takes for a command within a line of ours. */
export function oneLine(text: string): string {
  return text.replace(/\p{Cc}+/gu, ' ').replaceAll('##[', '## [')
}

/** Prints lines of somebody else as they are, with the runner's commands switched off meanwhile. */
export function logRaw(lines: readonly string[]): void {
  const token = randomUUID()
  info(`::stop-commands::${token}`)
  info(lines.join('\n'))
  info(`::${token}::`)
}

/** Lines of somebody else, folded. */
export function logGroup(title: string, lines: readonly string[]): void {
  startGroup(title)
  logRaw(lines)
  endGroup()
}

/** A group that begins with its first lines and goes on until something else is to be said. */
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

/** A duration in milliseconds for people. */
export function elapsed(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000)
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}
