import type { Database, Transaction } from '../../platform/database.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { type GitAccess, SourceError, sameRepository } from '../../sources/sources.ts'
import type { DeploymentSecrets } from '../secrets.ts'
import type { DeploymentRow } from '../tables.ts'
import { type GitCredentialsRow, tablesOf } from './tables.ts'

/** Binds the encrypted secret to its app and its purpose. */
export const secretContext = (appId: string): string => `${appId} git credentials`

export function findCredentials(on: Database | Transaction, appId: string): Promise<GitCredentialsRow | undefined> {
  return tablesOf(on).selectFrom('git_credentials').selectAll().where('app_id', '=', appId).executeTakeFirst()
}

/** Returns how git reaches the repository of a deployment. */
export type GitAccessOf = (row: DeploymentRow) => Promise<GitAccess>

/**
 * Makes the function that returns how git reaches the repository of a deployment: with the token that the deployment was given,
 * or else with the credentials that its app has for this very repository.
 */
export function createGitAccess(dependencies: {
  readonly database: Database
  readonly secretBox: SecretBox
  readonly secrets: Pick<DeploymentSecrets, 'tokenOf'>
}): GitAccessOf {
  const { database, secretBox, secrets } = dependencies
  return async (row) => {
    const hostKeys = hostKeysOf(database, row.app_id)
    const given = secrets.tokenOf(row)
    if (given !== null) return { credentials: { token: given, sshKey: null }, hostKeys }
    const stored = await findCredentials(database, row.app_id)
    if (stored === undefined || row.source_id !== null || !sameRepository(stored.git_url, row.git_url)) {
      return { credentials: { token: null, sshKey: null }, hostKeys }
    }
    const secret = secretBox.decrypt(stored.secret, secretContext(row.app_id))
    const sshKey = stored.public_key === null ? null : { publicKey: stored.public_key, privateKey: secret }
    return { credentials: { token: sshKey === null ? secret : null, sshKey }, hostKeys }
  }
}

/** The most ssh hosts that an app knows. A commit can name any number of them in its submodules, and each is a row. */
const mostHosts = 200

function hostKeysOf(database: Database, appId: string): GitAccess['hostKeys'] {
  const keyOf = async (host: string) => {
    const found = tablesOf(database).selectFrom('git_hosts').select('key').where('app_id', '=', appId)
    return (await found.where('host', '=', host).executeTakeFirst())?.key ?? null
  }
  return {
    keyOf,
    async keep(host, key) {
      const known = await keyOf(host)
      if (known !== null) return known === key
      if ((await countHosts(database, appId)) >= mostHosts) throw tooManyHosts()
      await tablesOf(database)
        .insertInto('git_hosts')
        .values({ app_id: appId, host, key })
        .onConflict((conflict) => conflict.doNothing())
        .execute()
      return (await keyOf(host)) === key
    },
  }
}

async function countHosts(database: Database, appId: string): Promise<number> {
  const { count } = await tablesOf(database)
    .selectFrom('git_hosts')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('app_id', '=', appId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

const tooManyHosts = (): SourceError =>
  new SourceError(
    'too_many_hosts',
    `The app knows ${mostHosts} ssh hosts, as many as it may.`,
    'Forget them, and deploy again: fairlead git forget APP, or Settings of the app in the dashboard.',
  )
