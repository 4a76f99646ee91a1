import type { DeploymentTrigger } from '../../contract/deployments.ts'
import { invalidRequest } from '../../contract/errors.ts'
import type { Transaction } from '../../platform/database.ts'
import { giveSecretsTo, sourceOfSecrets } from '../app-variables.ts'
import type { AppVariable } from '../release-variables.ts'
import type { DeploymentStore, NewDeployment } from '../rows.ts'
import { sourceOf } from '../source-of.ts'
import { rowOf } from './deployment-source.ts'

/**
 * Throws `invalid_request` when a key would give the secret variables of an app to code of another source than each of them
 * belongs to: otherwise a stolen key with the permission to deploy could read them. The deployment of a signed-in user takes
 * them along to its source. The lock of the app is the caller's.
 *
 * @param variables the app's, its links included
 */
export async function takeSecrets(
  store: Pick<DeploymentStore, 'releases'>,
  transaction: Transaction,
  release: Pick<NewDeployment, 'appId' | 'gitUrl' | 'sourceId' | 'image'> & {
    readonly trigger: Pick<DeploymentTrigger, 'kind'>
  },
  variables: readonly AppVariable[],
): Promise<void> {
  const { appId, trigger } = release
  const source = sourceOf(rowOf(release))
  const byUser = trigger.kind === 'user'
  if (!byUser) {
    const usual = await sourceOfSecrets(store.releases, transaction, appId)
    for (const { kind, source: own } of variables) {
      const owner = own ?? usual ?? source
      if (kind === 'secret' && owner !== source) throw staysWith(owner, fieldOf(release))
    }
  }
  if (variables.length > 0) await giveSecretsTo(transaction, appId, { source, all: byUser })
}

type SourceField = 'git_url' | 'source_id' | 'image'

function fieldOf({ sourceId, image }: Pick<NewDeployment, 'sourceId' | 'image'>): SourceField {
  if (sourceId !== null) return 'source_id'
  return image === null ? 'git_url' : 'image'
}

function staysWith(owner: string, field: SourceField) {
  const message =
    `the app has secret variables, which stay with ${owner}. Deploy the other source once in the dashboard, which takes them ` +
    'along, or under another name, or after the secret variables are removed'
  return invalidRequest({ field, message })
}
