import type { HandlersOf } from '../../http/call.ts'
import type { Files } from './files.ts'

export function storageHandlers(files: Files): HandlersOf<'storage'> {
  return {
    'storage.upload': ({ project, request: { message, signal }, audit }) =>
      files.upload({ project, message, signal, audit }),
    'storage.list': ({ project, page }) => files.list(project, page),
    'storage.get': ({ project, params }) => files.get(project, params.id),
    'storage.delete': async ({ project, transaction, params, afterCommit }) => {
      afterCommit(await files.delete(transaction, project, params.id))
      return undefined
    },
  }
}
