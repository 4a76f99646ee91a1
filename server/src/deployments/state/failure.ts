import { stripVTControlCharacters } from 'node:util'
import type { DeploymentFailure, DeploymentStage } from '../../contract/resources/deployments.ts'
import { createMasker } from '../../logs/masking.ts'
import type { ExceededLimit } from '../../runtimes/limits.ts'

/** Ends a deployment. `failure` is shown to its owner. */
export class DeploymentError extends Error {
  override readonly name = 'DeploymentError'
  readonly failure: DeploymentFailure

  constructor(stage: DeploymentStage, code: string, message: string) {
    super(message)
    this.failure = { stage, code, message }
  }
}

/** The failure that owners see when the server itself is to blame. */
export const serverFailure: DeploymentFailure = {
  stage: 'build',
  code: 'server_error',
  message: 'Something went wrong on the server. Its log has the details under the id of this deployment.',
}

/**
 * Returns the failure that the owner of a deployment sees. The output of a build may contain the app's secrets, and a
 * failure is shown in many places, so they are masked in it.
 */
export function failureOf(error: unknown, secrets: readonly string[]): DeploymentFailure {
  if (error instanceof DeploymentError) {
    return { ...error.failure, message: storable(createMasker(secrets).mask(error.message)) }
  }
  return serverFailure
}

/** Returns text that PostgreSQL can store: well-formed, without control characters besides tab and line feed. */
function storable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern finds control characters.
  return text.toWellFormed().replace(/[\x00-\x08\x0b-\x1f\x7f]/g, '')
}

/** Says which limit ended a build or an app, and what its owner can do. */
export function limitMessage({ code, allowed }: ExceededLimit, what: 'build' | 'app'): string {
  if (code === 'out_of_memory') {
    return `The ${what} needed more than the ${allowed / 1_000_000} MB of memory that it may use. Let it need less, or give the project a larger plan.`
  }
  return `The ${what} reached the ${allowed} processes and threads that it may have. Let it start fewer.`
}

/** The number of log lines that a failure ends with. */
export const linesInFailure = 20
const longestLine = 500

/** Adds the last lines of a log to a message, if there are any, as text without colours. */
export function withLastLines(message: string, lines: readonly string[]): string {
  if (lines.length === 0) return message
  const plain = lines.map((line) => stripVTControlCharacters(line).slice(0, longestLine))
  return `${message}\nIts last output:\n${plain.join('\n')}`
}
