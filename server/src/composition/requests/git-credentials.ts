import { notFound } from '../../contract/errors.ts'
import type { OwnedApps } from '../../deployments/app-directory.ts'
import { sourceOfSecrets } from '../../deployments/app-variables.ts'
import { type GitCredentialDependencies, gitCredentialHandlers } from '../../deployments/git-credentials.ts'
import type { DeploymentStore } from '../../deployments/rows.ts'
import { isRepository } from '../../deployments/source-of.ts'
import type { HandlersOf } from '../../http/call.ts'

/** Creates the operations that store and read the git credentials of apps. */
export function composeGitCredentials(
  given: Pick<GitCredentialDependencies, 'database' | 'secretBox' | 'allowHttpTokens'> & {
    readonly store: Pick<DeploymentStore, 'releases'>
    readonly apps: Pick<OwnedApps, 'find'>
  },
  hold: GitCredentialDependencies['hold'],
): HandlersOf<'gitCredentials'> {
  const { store, apps, ...rest } = given
  return gitCredentialHandlers({
    ...rest,
    hold,
    async repositoryOf(on, appId) {
      const source = await sourceOfSecrets(store.releases, on, appId)
      return source !== null && isRepository(source) ? source : null
    },
    async assertApp(on, projectId, appId) {
      if ((await apps.find(on, projectId, appId)) === undefined) throw notFound()
    },
  })
}
