import type { Generated, Selectable } from 'kysely'
import { invalidRequest, notFound } from '../../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { type GitSource, parseGitUrl, sshUrlOf } from '../../sources/git-url.ts'
import { takesToken } from '../../sources/remote.ts'
import { type GitAccess, SourceError, sameRepository } from '../../sources/sources.ts'
import { type DeployKey, fingerprintOf, makeDeployKey } from '../../sources/ssh.ts'
import type { OwnedApps } from './app-directory.ts'
import { sourceOfSecrets } from './app-variables.ts'
import type { ReleaseReads } from './reads.ts'
import type { DeploymentSecrets } from './secrets.ts'
import { isRepository } from './source-of.ts'
import type { DeploymentRow } from './tables.ts'

interface GitCredentialDependencies {
  readonly database: Database
  readonly secretBox: SecretBox
  readonly apps: Pick<OwnedApps, 'find'>
  readonly releases: Pick<ReleaseReads, 'serving' | 'latest'>
  /** Locks an app until the transaction ends. Throws `not_found`. */
  readonly hold: (transaction: Transaction, project: TenantProject, appId: string) => Promise<unknown>
  /** True only in local mode: tokens may be sent over plain http. */
  readonly allowHttpTokens: boolean
}

export function gitCredentialHandlers(dependencies: GitCredentialDependencies): HandlersOf<'gitCredentials'> {
  const { database, secretBox, apps, hold } = dependencies
  return {
    async 'gitCredentials.get'({ project, params }) {
      if ((await apps.find(database, project.id, params.app_id)) === undefined) throw notFound()
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

/** Adds a name by which the owner of the repository recognises the key. */
const withComment = ({ publicKey }: DeployKey, appId: string): string => `${publicKey} fairlead-${appId}`

/**
 * Returns the repository that credentials are for. Throws `invalid_request` when it cannot use this kind of
 * credentials.
 */
async function repository(
  { releases, allowHttpTokens }: Pick<GitCredentialDependencies, 'releases' | 'allowHttpTokens'>,
  transaction: Transaction,
  appId: string,
  { kind, git_url }: BodyOutput<'gitCredentials.set'>,
): Promise<{ readonly source: GitSource }> {
  const current = git_url === undefined ? await repositoryOf(releases, transaction, appId) : null
  const address = git_url ?? (kind === 'deploy_key' && current !== null ? (sshUrlOf(current) ?? current) : current)
  if (address === null) throw invalidRequest({ field: 'git_url', message: 'is required: the app has no repository' })
  const source = parseGitUrl(address, { allowFile: false })
  if ('field' in source) throw invalidRequest(source)
  if (kind === 'token' && !takesToken(source, { allowHttp: allowHttpTokens })) {
    throw invalidRequest({ field: 'git_url', message: 'must be an https address: a token is sent to no other one' })
  }
  if (kind === 'deploy_key' && source.protocol !== 'ssh') {
    const message = 'must be an ssh address, such as git@example.com:team/shop.git: a deploy key works only with ssh'
    throw invalidRequest({ field: 'git_url', message })
  }
  return { source }
}

/** Returns the repository of an app; null when it has none. */
async function repositoryOf(
  releases: GitCredentialDependencies['releases'],
  transaction: Transaction,
  appId: string,
): Promise<string | null> {
  const source = await sourceOfSecrets(releases, transaction, appId)
  return source !== null && isRepository(source) ? source : null
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

const secretContext = (appId: string): string => `${appId} git credentials`

function findCredentials(on: Database | Transaction, appId: string): Promise<GitCredentialsRow | undefined> {
  return tablesOf(on).selectFrom('git_credentials').selectAll().where('app_id', '=', appId).executeTakeFirst()
}

type GitAccessOf = (row: DeploymentRow) => Promise<GitAccess>

/**
 * Returns a function that tells how git reaches the repository of a deployment: with the deployment's token, else with
 * the app's credentials for exactly this repository.
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

/** The most ssh hosts of an app. The submodules of a commit can name any number of hosts, and each is a row. */
const mostHosts = 200

function hostKeysOf(database: Database, appId: string): GitAccess['hostKeys'] {
  const keyOf = async (host: string) => {
    const found = tablesOf(database).selectFrom('git_hosts').select('key').where('app_id', '=', appId)
    return (await found.where('host', '=', host).executeTakeFirst())?.key ?? null
  }
  return {
    keyOf,
    async keep(host, key) {
      const stored = await keyOf(host)
      if (stored !== null) return stored === key
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

type GitAccessTables = {
  git_credentials: {
    app_id: string
    kind: 'token' | 'deploy_key'
    git_url: string
    secret: Buffer
    /** The public part of a key; null for a token. */
    public_key: string | null
    created_at: Generated<Date>
  }
  git_hosts: {
    app_id: string
    /** With the port. */
    host: string
    /** The type and the key in base64. */
    key: string
    met_at: Generated<Date>
  }
}

type GitCredentialsRow = Selectable<GitAccessTables['git_credentials']>

const tablesOf = (on: Database | Transaction) => on.withTables<GitAccessTables>()
