import { stripVTControlCharacters } from 'node:util'
import type { DeploymentFailure, DeploymentStage } from '../../contract/resources/deployments.ts'
import { maskValues } from '../../logs/masking.ts'
import { groupLimits, type LimitCode, type Limits } from '../../runtimes/process/limits.ts'

/** A deployment that cannot go on, with what its owner is told. */
export class DeploymentError extends Error {
  override readonly name = 'DeploymentError'
  readonly failure: DeploymentFailure

  constructor(stage: DeploymentStage, code: string, message: string) {
    super(message)
    this.failure = { stage, code, message }
  }
}

/** What the owner is told when the server itself is to blame. */
export const serverFailure: DeploymentFailure = {
  stage: 'build',
  code: 'server_error',
  message: 'Something went wrong on the server. Its log has the details under the id of this deployment.',
}

/**
 * What the owner of a deployment is told of an error. The output of a build may hold what the app was trusted with, and
 * a failure is shown in many places, so the deployment's secrets are masked in it.
 */
export function failureOf(error: unknown, secrets: readonly string[]): DeploymentFailure {
  if (error instanceof DeploymentError) {
    return { ...error.failure, message: storable(maskValues(error.message, secrets)) }
  }
  return serverFailure
}

/** Text as the database takes it: well-formed, without control characters besides tab and line feed. */
function storable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out.
  return text.toWellFormed().replace(/[\x00-\x08\x0b-\x1f\x7f]/g, '')
}

/** What is said of a limit that was met. */
export function saidOf(code: LimitCode, what: 'build' | 'app', limits: Limits): string {
  const { memoryBytes, processes } = groupLimits(limits, what)
  if (code === 'out_of_memory') {
    return `The ${what} needed more than the ${memoryBytes / 1_000_000} MB of memory that it may use. Let it need less, or give the project a larger plan.`
  }
  return `The ${what} reached the ${processes} processes and threads that it may have. Let it start fewer.`
}

const longestLine = 500

/** A message with the last lines of a log, if there are any, as text without colours. */
export function withLastLines(message: string, lines: readonly string[]): string {
  if (lines.length === 0) return message
  const plain = lines.map((line) => stripVTControlCharacters(line).slice(0, longestLine))
  return `${message}\nIts last output:\n${plain.join('\n')}`
}
