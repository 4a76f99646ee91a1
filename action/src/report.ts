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
  /** What the server's message says beyond its first line, such as the end of a build's output; untrusted text. */
  readonly output?: string
}

/** Puts an outcome into words. */
export function reportOf(outcome: Outcome, inputs: Pick<Inputs, 'apiUrl' | 'name' | 'timeoutSeconds'>): Report {
  const failed = (...messages: readonly string[]): Report => {
    const status = 'deployment' in outcome && outcome.deployment ? outcome.deployment.status : 'failed'
    return { ok: false, status, messages }
  }
  switch (outcome.kind) {
    case 'running':
      return { ok: true, status: 'running', messages: [`${inputs.name} runs at ${outcome.deployment.url}`] }
    case 'accepted': {
      const { id, status } = outcome.deployment
      return {
        ok: true,
        status,
        messages: [`The server has accepted ${id}; \`wait\` is false, so it goes on by itself.`],
      }
    }
    case 'failed':
      return failedReport(outcome)
    case 'superseded':
      return failed(`A newer deployment of ${inputs.name} took over from ${outcome.deployment.id}, which does not run.`)
    case 'timeout':
      return failed(
        `${outcome.deployment.id} does not run after ${inputs.timeoutSeconds} s. It goes on at the server. ` +
          `${outcome.trouble === undefined ? '' : `The server could not be asked last: ${reasonOf(outcome.trouble)}. `}` +
          'To wait longer, raise the input `timeout`.',
      )
    case 'cancelled':
      return failed(
        outcome.deployment === undefined
          ? 'The run was cancelled while the deployment was being created. If the server accepted it, it goes on there.'
          : `The run was cancelled. The deployment ${outcome.deployment.id} goes on at the server.`,
      )
    case 'refused':
      return failed(...explain(outcome.error, inputs.apiUrl))
    case 'lost':
      return failed(
        `${outcome.deployment.id} was created and cannot be read any more, so its end is not known.`,
        ...explain(outcome.error, inputs.apiUrl),
      )
  }
}

function failedReport({ deployment, failure }: Extract<Outcome, { kind: 'failed' }>): Report {
  const status = deployment.status
  if (!failure)
    return { ok: false, status, messages: [`${deployment.id} ended as ${status}. The server gives no reason.`] }
  const [first = '', ...further] = failure.message.split(/\r\n|\r|\n/)
  const output = further.join('\n').trimEnd()
  return {
    ok: false,
    status,
    messages: [`${deployment.id} failed in the stage ${failure.stage} (${failure.code}): ${first}`],
    ...(output === '' ? {} : { output }),
  }
}
