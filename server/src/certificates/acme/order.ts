import type { Authorization, Client, Order } from 'acme-client'
import { growingPause } from '../../platform/abort.ts'
import { AttemptError } from './attempt-error.ts'
import type { ChallengeAnswer, ChallengeKinds } from './challenges.ts'
import { explainChallenge } from './explain.ts'
import { AcmeError, problemIn } from './problem.ts'
import type { Library } from './transport.ts'

export interface OrderRequest {
  readonly names: readonly string[]
  /** The key of the certificate, in PEM; for a resumed order that of the attempt before. */
  readonly key: string
  /** The order to resume; null for a new one. */
  readonly url: string | null
  /** Called with a new order, before anything is done about it. */
  readonly onOrder: (url: string) => Promise<void>
  readonly kinds: ChallengeKinds
  /** Aborts when it takes too long or the server stops. The order can be resumed then. */
  readonly signal: AbortSignal
}

/** Obtains a certificate (RFC 8555, section 7.4) and returns its chain in PEM. Rejects with `AttemptError` or `AcmeError`. */
export async function runOrder(library: Library, client: Client, request: OrderRequest): Promise<string> {
  const { signal } = request
  const order = (await findOrder(client, request.url)) ?? (await newOrder(client, request))
  if (order.status === 'pending') await authorize(client, order, request)
  const ready = await pollOrder(client, order, ['ready', 'valid'], signal)
  if (ready.status === 'ready') await finalize(library, client, ready, request)
  const valid = await pollOrder(client, order, ['valid'], signal)
  return client.getCertificate(valid)
}

/** Returns the order of an earlier attempt if it can be resumed. */
async function findOrder(client: Client, url: string | null): Promise<Order | undefined> {
  if (url === null) return undefined
  try {
    const order = await client.getOrder({ url } as Order)
    return order.status === 'invalid' ? undefined : order
  } catch (error) {
    // It is too old, or another account's.
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
  // One after the other: a certificate has a name or two, and each of them may use the same TXT record.
  for (const each of authorizations) {
    if (each.status === 'valid') continue
    assertOpen(each)
    await prove(client, order, each, request)
  }
}

/** Throws unless the authorization waits for its proof. */
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
    // Otherwise a server that was killed has told the authority already, which looks now.
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
      'FAIRLEAD_DNS_UPDATE_COMMAND. A certificate of your own can be uploaded instead.',
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

/** Waits until the order has one of the statuses. */
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

/** Looks again and again until there is something. Rejects with the reason of the signal when that aborts. */
async function poll<T>(signal: AbortSignal, look: () => Promise<T | undefined>): Promise<T> {
  const pause = growingPause({ firstMs: 200, longestMs: 5_000 })
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    await pause()
    signal.throwIfAborted()
  }
}
