import { randomUUID } from 'node:crypto'
import { info } from '@actions/core'

/** Prints one line that begins with words of ours. What else is in it can neither break it nor be read as a command. */
export function logLine(text: string): void {
  info(text.replace(/\p{Cc}+/gu, ' ').replaceAll('##[', '## ['))
}

/** Prints a text of somebody else as it is, with the runner's commands switched off meanwhile. */
export function logRaw(text: string): void {
  const token = randomUUID()
  info(`::stop-commands::${token}`)
  info(text)
  info(`::${token}::`)
}

/** A duration in milliseconds for people. */
export function elapsed(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000)
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}
