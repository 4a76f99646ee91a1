import type { HandlersOf } from '../../http/call.ts'
import type { Deployments } from './deployments.ts'
import type { Change, Lifecycle } from './lifecycle.ts'
import type { Logs } from './logs.ts'

export function deploymentHandlers(parts: {
  readonly deployments: Deployments
  readonly lifecycle: Lifecycle
  readonly logs: Logs
}): HandlersOf<'deployments'> {
  const { deployments, lifecycle, logs } = parts
  return {
    'deployments.list': ({ project, page }) => deployments.list(project, page),
    'deployments.create': ({ project, transaction, body }) => deployments.create(transaction, project, body),
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
      const { accept, 'last-event-id': lastEventId } = request.message.headers
      const follow = (accept ?? '').includes('text/event-stream')
      const wanted = { ...query, lastEventId: typeof lastEventId === 'string' ? lastEventId : undefined }
      return follow ? logs.follow(project, params.id, wanted, request) : logs.tail(project, params.id, wanted)
    },
  }
}

function change(call: Omit<Change, 'id'> & { readonly params: { readonly id: string } }): Change {
  const { transaction, project, params } = call
  return { transaction, project, id: params.id }
}
