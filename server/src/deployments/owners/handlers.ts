import type { HandlersOf, RequestFacts } from '../../http/call.ts'
import { mayUseProject, type Principal } from '../../http/principal.ts'
import type { Deployments } from './deployments.ts'
import type { Change, Lifecycle } from './lifecycle.ts'
import type { Logs, LogsRequest } from './log-reads/logs.ts'
import { triggerOf } from './trigger.ts'

export function deploymentHandlers(parts: {
  readonly deployments: Deployments
  readonly lifecycle: Lifecycle
  readonly logs: Logs
}): HandlersOf<'deployments' | 'logs'> {
  const { deployments, lifecycle, logs } = parts
  return {
    'deployments.list': ({ project, page }) => deployments.list(project, page),
    'deployments.create': ({ principal, project, transaction, body }) =>
      deployments.create(transaction, project, body, {
        principal,
        trigger: triggerOf(principal),
        mayUse: (projectId) => mayUseProject(principal, projectId),
      }),
    'deployments.get': ({ project, params }) => deployments.get(project, params.id),
    'deployments.delete': async (call) => {
      await lifecycle.delete(change(call))
      return undefined
    },
    'deployments.cancel': (call) => lifecycle.cancel(change(call)),
    'deployments.rollback': (call) => lifecycle.rollback(change(call)),
    'deployments.stop': (call) => lifecycle.stop(change(call)),
    'deployments.restart': (call) => lifecycle.restart(change(call)),
    'deployments.logs': ({ project, params, query, request }) => {
      const { wanted, follows } = logsRequest(query, request)
      return follows ? logs.follow(project, params.id, wanted, request) : logs.tail(project, params.id, wanted)
    },
    'logs.read': ({ project, params, query, request }) => {
      const { wanted, follows } = logsRequest(query, request)
      return follows
        ? logs.followApp(project, params.app_id, wanted, request)
        : logs.tailApp(project, params.app_id, wanted)
    },
    'logs.follow': async ({ principal, query, request }) =>
      logs.followSeveral(principal.accountId, query.follow, request),
  }
}

/** The headers of server-sent events (WHATWG HTML, 9.2) say that a log is to be followed, and from where. */
function logsRequest(query: Omit<LogsRequest, 'lastEventId'>, { message }: RequestFacts) {
  const { accept, 'last-event-id': lastEventId } = message.headers
  const wanted = { ...query, lastEventId: typeof lastEventId === 'string' ? lastEventId : undefined }
  return { wanted, follows: (accept ?? '').includes('text/event-stream') }
}

function change(
  call: Omit<Change, 'id' | 'by'> & { readonly principal: Principal; readonly params: { readonly id: string } },
): Change {
  const { transaction, project, params, principal } = call
  return { transaction, by: triggerOf(principal), project, id: params.id }
}
