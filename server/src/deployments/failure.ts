import type { DeploymentFailure, DeploymentStage } from '../contract/schemas.ts'

/** A deployment that cannot go on, with what its owner is told. */
export class DeploymentError extends Error {
  override readonly name = 'DeploymentError'
  readonly failure: DeploymentFailure

  constructor(stage: DeploymentStage, code: string, message: string) {
    super(message)
    this.failure = { stage, code, message }
  }
}

/** The reason that goes into a message: the last lines of a log, if there are any. */
export function withLastLines(message: string, lines: readonly string[]): string {
  return lines.length === 0 ? message : `${message} Its last output:\n${lines.join('\n')}`
}
