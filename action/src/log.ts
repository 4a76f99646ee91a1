import { randomUUID } from 'node:crypto'
import { ExitCode, endGroup, error, info, startGroup } from '@actions/core'

/** Prints a line that begins with our text. Untrusted text in it cannot start a new line or a workflow command. */
export function logLine(text: string): void {
  info(oneLine(text))
}

/** Removes line breaks and control characters, so that within a line the runner sees no command in the text. */
export function oneLine(text: string): string {
  return text.replace(/\p{Cc}+/gu, ' ').replaceAll('##[', '## [')
}

/** Fails the step with a message, which the run shows as an annotation. */
export function fail(message: string): void {
  process.exitCode = ExitCode.Failure
  error(oneLine(message), { title: 'Fairlead' })
}

/** The token that makes the runner obey commands again; undefined while it obeys them. */
let stopped: string | undefined

function stopCommands(): void {
  stopped = randomUUID()
  info(`::stop-commands::${stopped}`)
}

function resumeCommands(): void {
  if (stopped !== undefined) info(`::${stopped}::`)
  stopped = undefined
}

/** Does work that writes commands of the runner, also while a group of untrusted lines is open. */
export function withCommands(work: () => void): void {
  const wasStopped = stopped !== undefined
  resumeCommands()
  work()
  if (wasStopped) stopCommands()
}

/** Prints untrusted lines unchanged, in a group that can be folded: until its end, the runner ignores commands. */
export function logGroup(title: string, lines: readonly string[]): void {
  const group = createOpenGroup(title)
  group.print(lines)
  group.close()
}

/** A group of untrusted lines that starts with its first ones and ends when `close` is called. */
export interface OpenGroup {
  print(lines: readonly string[]): void
  close(): void
}

export function createOpenGroup(title: string): OpenGroup {
  let open = false
  return {
    print(lines) {
      if (!open) {
        startGroup(title)
        stopCommands()
      }
      open = true
      info(lines.join('\n'))
    },
    close() {
      if (open) {
        resumeCommands()
        endGroup()
      }
      open = false
    },
  }
}

/** Formats a duration in milliseconds, such as `2 min 5 s`. */
export function elapsed(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000)
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}
