import { invalidRequest, notFound } from '../../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { type GitSource, parseGitUrl, sshUrlOf } from '../../sources/git-url.ts'
import { takesToken } from '../../sources/remote.ts'
import { type DeployKey, fingerprintOf, makeDeployKey } from '../../sources/ssh.ts'
import { findCredentials, secretContext } from './access.ts'
import { tablesOf } from './tables.ts'

export interface GitCredentialDependencies {
  readonly database: Database
  readonly secretBox: SecretBox
  /** Throws `not_found` unless the project has the app. */
  readonly assertApp: (on: Database | Transaction, projectId: string, appId: string) => Promise<void>
  /** Locks an app until the transaction ends. Throws `not_found`. */
  readonly hold: (transaction: Transaction, project: TenantProject, appId: string) => Promise<unknown>
  /** Returns the repository of an app; null when it has none. */
  readonly repositoryOf: (on: Transaction, appId: string) => Promise<string | null>
  /** True in local mode alone: tokens may be sent over plain http. */
  readonly allowHttpTokens: boolean
}

/** The git credentials of an app as its owner reads and changes them. */
export function gitCredentialHandlers(dependencies: GitCredentialDependencies): HandlersOf<'gitCredentials'> {
  const { database, secretBox, assertApp, hold } = dependencies
  return {
    async 'gitCredentials.get'({ project, params }) {
      await assertApp(database, project.id, params.app_id)
      return view(database, params.app_id)
    },

    async 'gitCredentials.set'({ transaction, project, params: { app_id }, body, note }) {
      await hold(transaction, project, app_id)
      const { source } = await repository(dependencies, transaction, app_id, body)
      note({ kind: body.kind, git_url: source.url })
      const key = body.kind === 'deploy_key' ? makeDeployKey() : null
      const values = {
        kind: body.kind,
        git_url: source.url,
        secret: secretBox.encrypt(key?.privateKey ?? body.token ?? '', secretContext(app_id)),
        public_key: key === null ? null : withComment(key, app_id),
        created_at: new Date(),
      }
      await tablesOf(transaction)
        .insertInto('git_credentials')
        .values({ app_id, ...values })
        .onConflict((conflict) => conflict.column('app_id').doUpdateSet(values))
        .execute()
      return view(transaction, app_id)
    },

    async 'gitCredentials.delete'({ transaction, project, params }) {
      await hold(transaction, project, params.app_id)
      const { numDeletedRows } = await tablesOf(transaction)
        .deleteFrom('git_credentials')
        .where('app_id', '=', params.app_id)
        .executeTakeFirst()
      if (numDeletedRows !== 1n) throw notFound()
      return undefined
    },

    async 'gitCredentials.forgetHosts'({ transaction, project, params }) {
      await hold(transaction, project, params.app_id)
      await tablesOf(transaction).deleteFrom('git_hosts').where('app_id', '=', params.app_id).execute()
      return undefined
    },
  }
}

/** Adds the name by which the owner of the repository recognises the key. */
const withComment = ({ publicKey }: DeployKey, appId: string): string => `${publicKey} fairlead-${appId}`

/** Returns the repository that credentials are for. Throws `invalid_request` for one that does not take them. */
async function repository(
  { repositoryOf, allowHttpTokens }: Pick<GitCredentialDependencies, 'repositoryOf' | 'allowHttpTokens'>,
  transaction: Transaction,
  appId: string,
  { kind, git_url }: BodyOutput<'gitCredentials.set'>,
): Promise<{ readonly source: GitSource }> {
  const known = git_url === undefined ? await repositoryOf(transaction, appId) : null
  const address = git_url ?? (kind === 'deploy_key' && known !== null ? (sshUrlOf(known) ?? known) : known)
  if (address === null) throw invalidRequest({ field: 'git_url', message: 'is required: the app has no repository' })
  const source = parseGitUrl(address, { allowFile: false })
  if ('field' in source) throw invalidRequest(source)
  if (kind === 'token' && !takesToken(source, { allowHttp: allowHttpTokens })) {
    throw invalidRequest({ field: 'git_url', message: 'must be an https address: a token is sent to no other one' })
  }
  if (kind === 'deploy_key' && source.protocol !== 'ssh') {
    const message = 'must be an ssh address, such as git@example.com:team/shop.git: a deploy key works with ssh alone'
    throw invalidRequest({ field: 'git_url', message })
  }
  return { source }
}

async function view(on: Database | Transaction, appId: string): Promise<ResponseBody<'gitCredentials.get'>> {
  const stored = await findCredentials(on, appId)
  const hosts = await tablesOf(on)
    .selectFrom('git_hosts')
    .select(['host', 'key', 'met_at'])
    .where('app_id', '=', appId)
    .orderBy('host')
    .execute()
  return {
    git_credentials: stored
      ? {
          kind: stored.kind,
          git_url: stored.git_url,
          public_key: stored.public_key,
          fingerprint: stored.public_key && fingerprintOf(stored.public_key),
          created_at: stored.created_at.toISOString(),
        }
      : null,
    known_hosts: hosts.map(({ host, key, met_at }) => ({
      host,
      fingerprint: fingerprintOf(key),
      met_at: met_at.toISOString(),
    })),
  }
}
