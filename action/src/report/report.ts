import type { Deployment, Outcome } from '../api/outcome.ts'
import { codeOf, explain, reasonOf } from '../explain.ts'
import type { Inputs } from '../inputs/inputs.ts'

/** The result of a run for its log, outputs and summary. */
export interface Report {
  readonly ok: boolean
  /** The output `status`. */
  readonly status: string
  /** The output `failure-code`; empty for a success. */
  readonly code: string
  /** One message for a success, or one for each problem. */
  readonly messages: readonly string[]
  /** The last log lines of a failed deployment, which are untrusted text. */
  readonly output?: readonly string[]
}

type Known = Pick<Inputs, 'apiUrl' | 'name' | 'timeoutSeconds' | 'commit'>

/** Facts beside the outcome. */
export interface Surroundings {
  /** The end of the log. */
  readonly tail: readonly string[] | undefined
  /** The address of the deployment in the dashboard. */
  readonly link: string | undefined
  /** The release that serves the app after a deployment has failed. */
  readonly serving: Pick<Deployment, 'id' | 'url'> | undefined
}

/** Describes an outcome. */
export function reportOf(outcome: Outcome, inputs: Known, { tail, link, serving }: Surroundings): Report {
  const deployment = 'deployment' in outcome ? outcome.deployment : undefined
  const { id = '', url = '' } = deployment ?? {}
  const failed = (...messages: readonly string[]): Report => {
    const status = deployment?.status ?? 'failed'
    return { ok: false, status, code: failureCode(outcome), messages, ...withOutput(tail) }
  }
  switch (outcome.kind) {
    case 'running':
      return { ok: true, status: 'running', code: '', messages: [`${inputs.name} runs at ${url}`] }
    case 'accepted':
      return {
        ok: true,
        status: outcome.deployment.status,
        code: '',
        messages: [
          `The server has accepted ${id}; \`wait\` is false, so this step does not wait for it. ` +
            `${link} shows how it goes on, and the app will be at ${url}`,
        ],
      }
    case 'failed':
      return failedReport(outcome, { tail, serving })
    case 'superseded':
      return failed(
        `A newer deployment of ${inputs.name} took over from ${id}, which does not run. ` +
          'If another job deploys it at the same time, such as one of a matrix, give each app a `name` of its own.',
      )
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
          ? notCreated(outcome, inputs)
          : `${id} does not run after ${inputs.timeoutSeconds} s. ${remoteEnd(outcome)} To wait longer, raise the input \`timeout\`.`,
      )
    case 'cancelled':
      return failed(
        deployment === undefined
          ? `The run was cancelled while the deployment was being created.${outcome.maySend ? ' If the server accepted it, it continues there.' : ''}`
          : `The run was cancelled. ${remoteEnd(outcome)}`,
      )
    case 'refused':
      return failed(...explain(outcome.error, inputs.apiUrl))
    case 'lost':
      return failed(
        `${id} was created and cannot be read any more, so its result is not known.`,
        ...explain(outcome.error, inputs.apiUrl),
      )
  }
}

/** Describes why there is no deployment at the end of the time limit. */
function notCreated({ error, maySend }: Extract<Outcome, { kind: 'timeout' | 'cancelled' }>, inputs: Known): string {
  const [why] = error === undefined ? [] : explain(error, inputs.apiUrl)
  return [
    why ?? `\`api-url\`: ${inputs.apiUrl} did not answer.`,
    `It was tried for ${inputs.timeoutSeconds} s, the input \`timeout\`.`,
    ...(maySend ? ['The server may have accepted the deployment nevertheless.'] : []),
  ].join(' ')
}

/** Describes the state at the server of a deployment that is no longer waited for. */
function remoteEnd({ deployment, error }: Extract<Outcome, { kind: 'timeout' | 'cancelled' }>): string {
  if (deployment?.status === 'canceled') return `The deployment ${deployment.id} was cancelled at the server.`
  if (deployment?.status !== 'building') return `The deployment ${deployment?.id} was ${deployment?.status} by then.`
  const why = error === undefined ? '' : ` (${reasonOf(error)})`
  return `The deployment ${deployment.id} could not be cancelled${why} and may still be running at the server.`
}

function failedReport(
  { deployment, failure }: Extract<Outcome, { kind: 'failed' }>,
  { tail, serving }: Pick<Surroundings, 'tail' | 'serving'>,
): Report {
  const further = serving === undefined ? [] : [`The release ${serving.id} of before still serves ${serving.url}.`]
  const { id, status } = deployment
  const code = failureCode({ kind: 'failed', deployment, failure })
  if (!failure) {
    const messages = [`${id} ended as ${status}. The server gives no reason.`, ...further]
    return { ok: false, status, code, messages, ...withOutput(tail) }
  }
  // The first line is the error. Further lines are the end of the output, which is in the log, too.
  const [first = '', ...output] = failure.message.trimEnd().split(/\r\n|\r|\n/)
  const messages = [`${id} failed in the stage ${failure.stage} (${failure.code}): ${first}`, ...further]
  return { ok: false, status, code, messages, ...withOutput(tail?.length ? tail : output) }
}

/** Returns the code of a failure for conditions in workflows. It contains nothing that a shell could take for a command. */
function failureCode(outcome: Outcome): string {
  if (outcome.kind === 'refused' || outcome.kind === 'lost') return codeOf(outcome.error)
  if (outcome.kind !== 'failed') return outcome.kind
  const code = outcome.failure?.code ?? outcome.deployment.status
  return /^\w{1,100}$/.test(code) ? code : 'failed'
}

function withOutput(output: readonly string[] | undefined): Pick<Report, 'output'> {
  return output?.length ? { output } : {}
}
