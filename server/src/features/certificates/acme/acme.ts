import type { Authorization, Client, Order } from 'acme-client'
import { growingPause } from '../../../platform/abort.ts'
import type { Database } from '../../../platform/database.ts'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import type { Logger } from '../../../platform/logger.ts'
import type { SecretBox } from '../../../platform/secrets.ts'
import { newKey } from '../pem.ts'
import { accountKeyContext, tablesOf } from '../tables.ts'
import { AcmeError, AttemptError, explain, explainChallenge, problemIn } from './errors.ts'
import { createTransport, type Library, loadLibrary } from './transport.ts'

export interface AcmeOptions extends Omit<AcmeAccountDependencies, 'library'> {
  /** The file with the root certificates for the authority's own certificate; null for the public roots. */
  readonly ca: string | null
  readonly kinds: ChallengeKinds
}

/**
 * A certificate authority that speaks ACME (RFC 8555). Every call rejects with `AttemptError` or the reason of the
 * signal.
 */
export interface Acme {
  /** Obtains a certificate, and returns its chain as PEM. */
  order(request: Omit<OrderRequest, 'kinds'>): Promise<string>
  /** Revokes a certificate for the reason of a compromised key. Resolves when it is already revoked. */
  revoke(certificate: string, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

export interface ChallengeAnswer {
  /** The name of the authorization, without `*.`. */
  readonly name: string
  readonly token: string
  /** For http-01 the text at the path, for dns-01 the text of the TXT record. */
  readonly value: string
}

/**
 * A way to prove control of names. `prepare` resolves when the answer is visible, as far as the server can tell. It
 * rejects with `AttemptError` when it is not, so that the authority is not asked in vain. `clean` never rejects, and is
 * always called, even when the signal has aborted.
 */
export interface ChallengeKind {
  readonly type: 'http-01' | 'dns-01'
  prepare(answer: ChallengeAnswer, signal: AbortSignal): Promise<void>
  clean(answer: ChallengeAnswer, signal: AbortSignal): Promise<void>
}

/** `dns` is null when the server cannot change DNS. */
interface ChallengeKinds {
  readonly http: ChallengeKind
  readonly dns: ChallengeKind | null
}

/** The time for an order with all its waits. The next attempt resumes an order that takes longer. */
const orderTimeoutMs = 8 * 60_000
const revocationTimeoutMs = 60_000
/** The reason code of RFC 5280, section 5.3.1. */
const keyCompromise = 1

export async function createAcme({ ca, kinds, ...options }: AcmeOptions): Promise<Acme> {
  const library = await loadLibrary()
  const transport = await createTransport(ca)
  const account = createAcmeAccount({ ...options, library })

  const within = async <T>(
    timeoutMs: number,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    try {
      return await transport.use(limited, () => work(limited))
    } catch (error) {
      signal.throwIfAborted()
      throw limited.aborted ? tookTooLong(timeoutMs) : explain(error)
    }
  }

  return {
    order: (request) =>
      within(orderTimeoutMs, request.signal, (signal) =>
        account.use((client) => runOrder(library, client, { ...request, kinds, signal })),
      ),
    revoke: (certificate, signal) =>
      within(revocationTimeoutMs, signal, () =>
        account.use(async (client) => {
          await client.revokeCertificate(certificate, { reason: keyCompromise }).catch(unlessRevoked)
        }),
      ),
    close: () => transport.close(),
  }
}

function unlessRevoked(error: unknown): void {
  if (error instanceof AcmeError && error.problem?.type === 'alreadyRevoked') return
  throw error
}

const tookTooLong = (timeoutMs: number): AttemptError =>
  new AttemptError(
    'timeout',
    `The attempt took more than ${Math.round(timeoutMs / 60_000)} minutes. The server tries again automatically.`,
    {
      keepsOrder: true,
    },
  )

interface AcmeAccountDependencies {
  readonly database: Database
  readonly secrets: SecretBox
  readonly library: Library
  readonly directory: string
  /** The address that the authority writes to about problems. */
  readonly email: string
  readonly logger: Pick<Logger, 'info' | 'warn'>
}

/** The account of this server at the authority. It is created once, and kept by all servers and versions. */
export interface AcmeAccount {
  /**
   * Runs `work` with a client that signs with the account's key. When the authority does not know the account or
   * refuses its key, creates another account and runs `work` once more.
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

interface OpenAccount {
  readonly url: string
  readonly client: Client
}

/** An account younger than this is not replaced, because its successor would be refused, too. */
const leastAgeMs = 10 * 60_000

const accountProblems = ['accountDoesNotExist', 'unauthorized', 'malformed', 'badPublicKey', 'badSignatureAlgorithm']

function createAcmeAccount(dependencies: AcmeAccountDependencies): AcmeAccount {
  const oneAtATime = createKeyedLock()
  let opened: OpenAccount | undefined

  const open = () =>
    oneAtATime('account', async () => {
      opened ??= await register(dependencies)
      return opened
    })

  /** Returns true when the account has been replaced. */
  const replaceUnlessGood = (refused: OpenAccount) =>
    oneAtATime('account', async () => {
      if (opened !== refused) return true
      if (await isKnownToAuthority(refused)) return false
      opened = undefined
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

async function register(dependencies: AcmeAccountDependencies): Promise<OpenAccount> {
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
  // An authority that already knows the key returns its account.
  await client.createAccount({ termsOfServiceAgreed: true, contact })
  const url = client.getAccountUrl()
  await change(dependencies, { url, email })
  logger.info({ directory, account: url }, 'an account was made at the certificate authority')
  return { url, client }
}

/** Sends the current e-mail address to the authority. A refused account is left unchanged: its next use replaces it. */
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

/** Stores a new key before it is sent to the authority, so that a killed server leaves no unknown account behind. */
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

/** Asks the authority whether it has an account for the key. Rejects when the authority does not answer. */
async function isKnownToAuthority({ url, client }: OpenAccount): Promise<boolean> {
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

interface OrderRequest {
  readonly names: readonly string[]
  /** The key of the certificate, as PEM; for a resumed order, the key of the previous attempt. */
  readonly key: string
  /** The order to resume; null for a new one. */
  readonly url: string | null
  /** Called with a new order before any other step. */
  readonly onOrder: (url: string) => Promise<void>
  readonly kinds: ChallengeKinds
  readonly signal: AbortSignal
}

/**
 * Obtains a certificate (RFC 8555, section 7.4) and returns its chain as PEM. Rejects with `AttemptError` or
 * `AcmeError`.
 */
async function runOrder(library: Library, client: Client, request: OrderRequest): Promise<string> {
  const { signal } = request
  const order = (await findOrder(client, request.url)) ?? (await newOrder(client, request))
  if (order.status === 'pending') await authorize(client, order, request)
  const ready = await pollOrder(client, order, ['ready', 'valid'], signal)
  if (ready.status === 'ready') await finalize(library, client, ready, request)
  const valid = await pollOrder(client, order, ['valid'], signal)
  return client.getCertificate(valid)
}

async function findOrder(client: Client, url: string | null): Promise<Order | undefined> {
  if (url === null) return undefined
  try {
    const order = await client.getOrder({ url } as Order)
    return order.status === 'invalid' ? undefined : order
  } catch (error) {
    // The order is too old, or belongs to another account.
    if (error instanceof AcmeError && error.problem !== null && (error.status ?? 0) < 500) return undefined
    throw error
  }
}

async function newOrder(client: Client, { names, onOrder }: OrderRequest): Promise<Order> {
  const order = await client.createOrder({ identifiers: names.map((value) => ({ type: 'dns', value })) })
  await onOrder(order.url)
  return order
}

async function authorize(client: Client, order: Order, request: OrderRequest): Promise<void> {
  const authorizations = await client.getAuthorizations(order)
  // One after the other: a certificate has one or two names, and their proofs may use the same TXT record.
  for (const each of authorizations) {
    if (each.status === 'valid') continue
    assertOpen(each)
    await prove(client, order, each, request)
  }
}

function assertOpen({ status, challenges }: Authorization): void {
  if (status === 'pending') return
  const problem = challenges.map(({ error }) => problemIn(error)).find((each) => each !== undefined)
  if (problem !== undefined) throw explainChallenge(problem)
  throw new AttemptError(
    'authority_error',
    `The authorization of the authority is ${status}. The server tries again automatically.`,
  )
}

async function prove(client: Client, order: Order, authorization: Authorization, request: OrderRequest): Promise<void> {
  const { kinds, signal } = request
  const kind = authorization.wildcard === true ? kinds.dns : kinds.http
  if (kind === null) throw withoutDnsUpdates()
  const challenge = authorization.challenges.find(({ type }) => type === kind.type)
  if (challenge === undefined || !/^[A-Za-z0-9_-]{1,200}$/.test(challenge.token)) {
    throw new AttemptError('authority_error', `The certificate authority offers no challenge of the type ${kind.type}.`)
  }
  const answer: ChallengeAnswer = {
    name: authorization.identifier.value,
    token: challenge.token,
    value: await client.getChallengeKeyAuthorization(challenge),
  }
  try {
    await kind.prepare(answer, signal)
    // Another status means that a killed server has already told the authority, which is checking now.
    if (challenge.status === 'pending') await client.completeChallenge(challenge)
    await waitForProof(client, order, authorization.url, signal)
  } finally {
    await kind.clean(answer, signal)
  }
}

const withoutDnsUpdates = (): AttemptError =>
  new AttemptError(
    'dns_updates_missing',
    'A wildcard needs a server that can change DNS: its operator sets FAIRLEAD_DNS_UPDATE_SERVER and FAIRLEAD_DNS_UPDATE_KEY, or ' +
      'FAIRLEAD_DNS_UPDATE_COMMAND. You can upload your certificate instead.',
  )

async function waitForProof(client: Client, order: Order, url: string, signal: AbortSignal): Promise<void> {
  await poll(signal, async () => {
    const all = await client.getAuthorizations(order)
    const found = all.find((each) => each.url === url)
    if (found?.status === 'valid') return true
    if (found !== undefined) assertOpen(found)
    return undefined
  })
}

function pollOrder(
  client: Client,
  order: Order,
  statuses: readonly Order['status'][],
  signal: AbortSignal,
): Promise<Order> {
  return poll(signal, async () => {
    const found = await client.getOrder(order)
    if (statuses.includes(found.status)) return found
    if (found.status !== 'invalid') return undefined
    const problem = problemIn(found.error)
    if (problem !== undefined) throw explainChallenge(problem)
    throw new AttemptError(
      'authority_error',
      'The certificate authority has given up the order. The server tries again automatically.',
    )
  })
}

async function finalize(library: Library, client: Client, order: Order, { names, key }: OrderRequest): Promise<void> {
  const [, csr] = await library.crypto.createCsr({ altNames: [...names] }, key)
  await client.finalizeOrder(order, csr)
}

async function poll<T>(signal: AbortSignal, look: () => Promise<T | undefined>): Promise<T> {
  const pause = growingPause({ firstMs: 200, longestMs: 5_000 })
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    await pause()
    signal.throwIfAborted()
  }
}
