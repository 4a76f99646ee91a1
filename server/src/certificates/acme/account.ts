import type { Client } from 'acme-client'
import type { Database } from '../../platform/database.ts'
import { createKeyedLock } from '../../platform/keyed-lock.ts'
import type { Logger } from '../../platform/logger.ts'
import type { SecretBox } from '../../platform/secrets/secret-box.ts'
import { newKey } from '../pem/key.ts'
import { accountKeyContext, tablesOf } from '../tables.ts'
import { AttemptError } from './attempt-error.ts'
import { AcmeError } from './problem.ts'
import type { Library } from './transport.ts'

export interface AcmeAccountDependencies {
  readonly database: Database
  readonly secrets: SecretBox
  readonly library: Library
  /** The address of the authority's directory. */
  readonly directory: string
  /** The authority writes to it when something is wrong. */
  readonly email: string
  readonly logger: Pick<Logger, 'info' | 'warn'>
}

/** The account of this server at the authority. It is made once, and kept over all servers and versions. */
export interface AcmeAccount {
  /**
   * Runs `work` with a client that signs by the account's key. Another account is made, and `work` run once more, when the authority
   * does not know this one or refuses its key.
   */
  use<T>(work: (client: Client) => Promise<T>): Promise<T>
}

interface Stored {
  /** Null until the authority knows the key. */
  readonly url: string | null
  readonly key: string
  readonly email: string
  readonly createdAt: Date
}

interface Known {
  readonly url: string
  readonly client: Client
}

/** An account that was made so lately is not replaced: the next one would be refused, too. */
const leastAgeMs = 10 * 60_000

/** The problems by which an authority may say that it does not accept the account. */
const accountProblems = ['accountDoesNotExist', 'unauthorized', 'malformed', 'badPublicKey', 'badSignatureAlgorithm']

export function createAcmeAccount(dependencies: AcmeAccountDependencies): AcmeAccount {
  const oneAtATime = createKeyedLock()
  let known: Known | undefined

  const open = () =>
    oneAtATime('account', async () => {
      known ??= await register(dependencies)
      return known
    })

  /** Returns true when another account is there now. */
  const replaceUnlessGood = (refused: Known) =>
    oneAtATime('account', async () => {
      if (known !== refused) return true
      if (await isKnownToAuthority(refused)) return false
      known = undefined
      await forget(dependencies, refused.url)
      return true
    })

  return {
    async use(work) {
      const account = await open()
      try {
        return await work(account.client)
      } catch (error) {
        if (!mayBeRefused(error) || !(await replaceUnlessGood(account))) throw error
        return work((await open()).client)
      }
    },
  }
}

const mayBeRefused = (error: unknown): boolean =>
  error instanceof AcmeError && error.problem !== null && accountProblems.includes(error.problem.type)

/** Returns the account, with the authority's address of it. Makes key and account where there are none. */
async function register(dependencies: AcmeAccountDependencies): Promise<Known> {
  const { library, directory, email, logger } = dependencies
  const stored = (await read(dependencies)) ?? (await makeKey(dependencies))
  const { Client } = library
  const contact = [`mailto:${email}`]
  if (stored.url !== null) {
    const client = new Client({ directoryUrl: directory, accountKey: stored.key, accountUrl: stored.url })
    if (stored.email !== email) await changeContact(dependencies, client)
    return { url: stored.url, client }
  }
  const client = new Client({ directoryUrl: directory, accountKey: stored.key })
  // An authority that knows the key already answers with its account.
  await client.createAccount({ termsOfServiceAgreed: true, contact })
  const url = client.getAccountUrl()
  await change(dependencies, { url, email })
  logger.info({ directory, account: url }, 'an account was made at the certificate authority')
  return { url, client }
}

/** Tells the authority the current e-mail address. An account that it refuses is left as it is: its next use replaces it. */
async function changeContact(dependencies: AcmeAccountDependencies, client: Client): Promise<void> {
  const { email } = dependencies
  try {
    await client.updateAccount({ contact: [`mailto:${email}`] })
    await change(dependencies, { email })
  } catch (error) {
    if (!mayBeRefused(error)) throw error
  }
}

async function read({ database, secrets, directory }: AcmeAccountDependencies): Promise<Stored | undefined> {
  const row = await tablesOf(database)
    .selectFrom('acme_accounts')
    .selectAll()
    .where('directory', '=', directory)
    .executeTakeFirst()
  if (row === undefined) return undefined
  const key = secrets.decrypt(row.private_key, accountKeyContext(directory))
  return { url: row.url, key, email: row.email, createdAt: row.created_at }
}

/** Stores a new key before the authority hears of it, so that a server that is killed leaves no account behind. */
async function makeKey(dependencies: AcmeAccountDependencies): Promise<Stored> {
  const { database, secrets, directory, email } = dependencies
  const key = await newKey()
  await tablesOf(database)
    .insertInto('acme_accounts')
    .values({ directory, url: null, email, private_key: secrets.encrypt(key, accountKeyContext(directory)) })
    .execute()
  return { url: null, key, email, createdAt: new Date() }
}

async function change(
  { database, directory }: AcmeAccountDependencies,
  values: { readonly url?: string; readonly email?: string },
): Promise<void> {
  await tablesOf(database).updateTable('acme_accounts').set(values).where('directory', '=', directory).execute()
}

/** Asks the authority for the account of the key. Rejects when it does not answer. */
async function isKnownToAuthority({ url, client }: Known): Promise<boolean> {
  try {
    const { status } = await client.createAccount({ onlyReturnExisting: true })
    return status === 'valid' && client.getAccountUrl() === url
  } catch (error) {
    if (mayBeRefused(error)) return false
    throw error
  }
}

async function forget(dependencies: AcmeAccountDependencies, url: string): Promise<void> {
  const { database, directory, logger } = dependencies
  const stored = await read(dependencies)
  if (stored !== undefined && Date.now() - stored.createdAt.getTime() < leastAgeMs) {
    const message = 'The certificate authority refuses the account that this server has made a moment ago.'
    throw new AttemptError('account_problem', message, { pauses: 'all' })
  }
  logger.warn({ directory, account: url }, 'the certificate authority refuses the account; another one is made')
  await tablesOf(database).deleteFrom('acme_accounts').where('directory', '=', directory).execute()
}
