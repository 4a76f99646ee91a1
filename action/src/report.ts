import type { Outcome } from './deploy.ts'
import { explain, reasonOf } from './explain.ts'
import type { Inputs } from './inputs.ts'

/** What the run tells in its log, its outputs and its summary. */
export interface Report {
  readonly ok: boolean
  /** The output `status`. */
  readonly status: string
  /** One for a success; one for each problem otherwise. */
  readonly messages: readonly string[]
  /** The last lines of the log of what failed; untrusted text. */
  readonly output?: readonly string[]
}

type Known = Pick<Inputs, 'apiUrl' | 'name' | 'timeoutSeconds' | 'commit'>

/** Puts an outcome into words. `tail` is the end of the log, where it could be read. */
export function reportOf(outcome: Outcome, inputs: Known, tail: readonly string[] | undefined): Report {
  const deployment = 'deployment' in outcome ? outcome.deployment : undefined
  const { id = '', url = '' } = deployment ?? {}
  const failed = (...messages: readonly string[]): Report => {
    const status = deployment?.status ?? 'failed'
    return { ok: false, status, messages, ...withOutput(tail) }
  }
  switch (outcome.kind) {
    case 'running':
      return { ok: true, status: 'running', messages: [`${inputs.name} runs at ${url}`] }
    case 'accepted':
      return {
        ok: true,
        status: outcome.deployment.status,
        messages: [`The server has accepted ${id}; \`wait\` is false, so it goes on by itself.`],
      }
    case 'failed':
      return failedReport(outcome, tail)
    case 'superseded':
      return failed(`A newer deployment of ${inputs.name} took over from ${id}, which does not run.`)
    case 'deleted':
      return { ...failed(`${id} was deleted while it was waited for.`), status: 'deleted' }
    case 'mismatch':
      return failed(
        `${id} is of the commit ${outcome.deployment.commit}, and ${inputs.commit} was to be deployed. ` +
          'Look at the inputs `git-url`, `branch` and `commit`.',
      )
    case 'timeout':
      return failed(
        deployment === undefined
          ? `\`api-url\`: ${inputs.apiUrl} did not answer in time. The server may have accepted the deployment all the same.`
          : `${id} does not run after ${inputs.timeoutSeconds} s. ${remoteEnd(outcome)} To wait longer, raise the input \`timeout\`.`,
      )
    case 'cancelled':
      return failed(
        deployment === undefined
          ? 'The run was cancelled while the deployment was being created. If the server accepted it, it goes on there.'
          : `The run was cancelled. ${remoteEnd(outcome)}`,
      )
    case 'refused':
      return failed(...explain(outcome.error, inputs.apiUrl))
    case 'lost':
      return failed(
        `${id} was created and cannot be read any more, so its end is not known.`,
        ...explain(outcome.error, inputs.apiUrl),
      )
  }
}

/** What became of a deployment that nobody waits for any more. */
function remoteEnd({ deployment, trouble }: Extract<Outcome, { kind: 'timeout' | 'cancelled' }>): string {
  if (deployment?.status === 'canceled') return `The deployment ${deployment.id} was cancelled at the server.`
  if (deployment?.status !== 'building') return `The deployment ${deployment?.id} was ${deployment?.status} by then.`
  const why = trouble === undefined ? '' : ` (${reasonOf(trouble)})`
  return `The deployment ${deployment.id} could not be cancelled${why} and may go on at the server.`
}

function failedReport(
  { deployment, failure }: Extract<Outcome, { kind: 'failed' }>,
  tail: readonly string[] | undefined,
): Report {
  const { id, status } = deployment
  if (!failure) {
    const messages = [`${id} ended as ${status}. The server gives no reason.`]
    return { ok: false, status, messages, ...withOutput(tail) }
  }
  // The first line says what happened; what follows is the end of the output, which the log has as well.
  const [first = '', ...further] = failure.message.trimEnd().split(/\r\n|\r|\n/)
  const messages = [`${id} failed in the stage ${failure.stage} (${failure.code}): ${first}`]
  return { ok: false, status, messages, ...withOutput(tail?.length ? tail : further) }
}

function withOutput(output: readonly string[] | undefined): Pick<Report, 'output'> {
  return output?.length ? { output } : {}
}
