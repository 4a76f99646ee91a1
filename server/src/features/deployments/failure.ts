import { stripVTControlCharacters } from 'node:util'
import type { DeploymentStage, Suggestion } from '../../contract/deployments.ts'
import { withVisible } from '../../contract/invisible.ts'
import { createMasker } from '../../logs/masking.ts'
import { type ExceededLimit, mostOpenFiles, mostProcesses } from '../../runtimes/limits.ts'

export interface DeploymentFailure {
  readonly stage: DeploymentStage
  readonly code: string
  readonly message: string
  readonly suggestions?: Suggestion[]
}

export class DeploymentError extends Error {
  override readonly name = 'DeploymentError'
  readonly failure: DeploymentFailure

  constructor(stage: DeploymentStage, code: string, message: string, suggestions: readonly Suggestion[] = []) {
    super(message)
    this.failure = { stage, code, message, ...(suggestions.length === 0 ? {} : { suggestions: [...suggestions] }) }
  }
}

export const serverFailure: DeploymentFailure = {
  stage: 'build',
  code: 'server_error',
  message: 'Something went wrong on the server. Its log has the details under the id of this deployment.',
}

/**
 * Returns the failure that the deployment's owner sees. Masks secrets, because the output of a build may contain them,
 * and many places show the failure.
 */
export function failureOf(error: unknown, secrets: readonly string[]): DeploymentFailure {
  if (error instanceof DeploymentError) {
    return { ...error.failure, message: storable(createMasker(secrets).mask(error.message)) }
  }
  return serverFailure
}

/** `end` is a sentence that says how the command ended. */
export const exceededLimit = (exceeded: ExceededLimit, end: string, lines: readonly string[]): DeploymentError =>
  new DeploymentError('build', exceeded.code, withLastLines(`${limitMessage(exceeded, 'build')} ${end}`, lines))

/** More than a message with the last lines of a log needs: names in a repository may be very long. */
const longestMessage = 20_000

/** Returns text that PostgreSQL can store and a terminal can show, of a limited length. */
function storable(text: string): string {
  const cut = text.length > longestMessage ? `${text.slice(0, longestMessage)}…` : text
  return withVisible(cut.toWellFormed().replace(/[^\P{Cc}\t\n]/gu, ''))
}

const linesInFailure = 20
const longestLine = 500

export const seeOutput = (lines: readonly string[]): string =>
  lines.length === 0 ? 'It printed nothing.' : 'See the last lines of its output below.'

/** Adds the last lines of a log to a message, without colours, and advice about a limit that they mention. */
export function withLastLines(message: string, lines: readonly string[]): string {
  if (lines.length === 0) return message
  const plain = lines.map((line) => stripVTControlCharacters(line).slice(0, longestLine))
  const advice = limitInOutput(plain)
  const told = advice === null ? message : `${message} ${advice}`
  return `${told}${lastOutput}${withoutFrames(plain).slice(-linesInFailure).join('\n')}`
}

/** A longer trace is cut to this many lines: the lines before it explain more. */
const mostFrames = 4

/** Process managers write the name of the app before each line. */
const frame = /^(?:.{0,60}\|)?[ \t]+at [^ \t]/

function withoutFrames(lines: readonly string[]): string[] {
  const shown: string[] = []
  let frames = 0
  for (const line of [...lines, null]) {
    const isFrame = line !== null && frame.test(line)
    if (isFrame && ++frames > mostFrames) continue
    if (!isFrame && frames > mostFrames) shown.push(`    … ${frames - mostFrames} more`)
    if (!isFrame) frames = 0
    if (line !== null) shown.push(line)
  }
  return shown
}

const lastOutput = '\nIts last output:\n'

export function withSentence({ failure }: DeploymentError, sentence: string): DeploymentError {
  const { stage, code, message, suggestions } = failure
  const at = message.indexOf(lastOutput)
  const [told, lines] = at === -1 ? [message, ''] : [message.slice(0, at), message.slice(at)]
  return new DeploymentError(stage, code, `${told} ${sentence}${lines}`, suggestions)
}

/** Says which limit ended a build or an app, and what its owner can do. */
export function limitMessage({ code, allowed, used }: ExceededLimit, what: 'build' | 'app'): string {
  if (code === 'too_many_processes') {
    return `The ${what} reached the ${allowed} processes and threads that it may have. Let it start fewer.`
  }
  const whose = what === 'build' ? 'that each build may use here' : 'that the plan of its project allows'
  const seen = used === null ? '' : `: it used ${megabytes(used)} when it was ended`
  const advice =
    what === 'build'
      ? 'Let it need less, for example by fewer workers, or ask the operator for a higher FAIRLEAD_BUILD_MEMORY_MB.'
      : 'Let it need less, or give the project a larger plan.'
  return `The ${what} needed more than the ${megabytes(allowed)} of memory ${whose}${seen}. ${advice}`
}

const megabytes = (bytes: number): string => `${Math.round(bytes / 1_000_000)} MB`

const more = 'More needs a larger plan for an app, and a higher FAIRLEAD_BUILD_MEMORY_MB of the operator for a build.'

/** Limits that do not end a process from outside: programs reach them and report them in their output. */
const limitHints: readonly { readonly pattern: RegExp; readonly advice: (lines: readonly string[]) => string }[] = [
  {
    pattern: /JavaScript heap out of memory|JS heap out of memory|ERR_WORKER_OUT_OF_MEMORY/,
    advice: (lines) =>
      `Node's heap reached its limit${heapOf(lines)}, which is two thirds of the allowed memory unless ` +
      `the variable NODE_OPTIONS sets another (--max-old-space-size, in MB). Let it need less, or set that higher. ${more}`,
  },
  {
    pattern: /java\.lang\.OutOfMemoryError: (?!unable to create)/,
    advice: () =>
      `Java's heap reached its limit: the variable JAVA_TOOL_OPTIONS sets another (-XX:MaxRAMPercentage, -Xmx). ${more}`,
  },
  {
    pattern: /Allowed memory size of \d+ bytes exhausted/,
    advice: () => `PHP reached its own limit of memory: memory_limit in its settings. ${more}`,
  },
  {
    pattern: /\bE[MN]FILE\b|too many open files/i,
    advice: () =>
      `It may have ${mostOpenFiles} files and connections open at once, in each process. Let it close more of them.`,
  },
  {
    pattern:
      /(spawn|fork|clone|thread)\S*.*(EAGAIN|Resource temporarily unavailable)|can't start new thread|unable to create native thread/i,
    advice: () =>
      `It may have ${mostProcesses} processes and threads. Let it start fewer, for example by fewer workers.`,
  },
  {
    pattern:
      /(ENOSPC|No space left on device).*(\/tmp|\/dev\/shm|\/run)\b|(\/tmp|\/dev\/shm|\/run)\/.*No space left on device/i,
    advice: () =>
      'Its /tmp, /dev/shm and /run are in memory and hold 64 MiB each. Let it write to the folder in the variable TMPDIR.',
  },
]

/** Says which limit the last lines of an output mention, and what to do; `null` when they mention no limit. */
export function limitInOutput(lines: readonly string[]): string | null {
  const found = limitHints.find(({ pattern }) => lines.some((line) => pattern.test(line)))
  return found === undefined ? null : found.advice(lines)
}

/** Returns the size of the heap before Node's last garbage collection, in words. */
function heapOf(lines: readonly string[]): string {
  const sizes = lines.flatMap((line) => /(?:Mark-Compact|Scavenge).*?\s([\d.]+) \([\d.]+\) -> /.exec(line)?.[1] ?? [])
  const last = sizes.at(-1)
  return last === undefined ? '' : ` when that had ${Math.round(Number(last))} MB`
}
