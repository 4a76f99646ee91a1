import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { invalidRequest } from '../contract/errors.ts'
import type { Operation } from '../contract/operations.ts'
import type { Database, Transaction } from '../platform/database.ts'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import type { SecretBox } from '../platform/secrets/secret-box.ts'
import type { Answer } from './answer.ts'
import type { Principal } from './principal.ts'

/** How long an answer is kept for a repetition of its request. */
const keptHours = 24

const header = 'Idempotency-Key'
const replayed = { 'Idempotent-Replayed': 'true' } as const

/** One request that must not be done twice. */
export interface Claim {
  readonly accountId: string
  readonly operation: string
  readonly key: string
  /** Of everything that makes it the same request. */
  readonly fingerprint: string
}

/** Whether an operation can be repeated under a key: creations and actions, whose answer is plain data. */
export function takesIdempotencyKey(operation: Pick<Operation, 'method' | 'upload' | 'text'>): boolean {
  return operation.method === 'POST' && !operation.upload && !operation.text
}

/** The claim that a request makes, if it does. Throws `invalid_request` on a malformed header. */
export function claimOf(
  operation: Operation,
  request: {
    readonly header: string | string[] | undefined
    readonly principal: Principal
    readonly path: string
    readonly body: unknown
  },
): Claim | undefined {
  if (request.header === undefined || !takesIdempotencyKey(operation)) return undefined
  if (typeof request.header !== 'string' || !/^[\x20-\x7e]{1,255}$/.test(request.header)) {
    throw invalidRequest({ field: header, message: 'must be 1 to 255 printable ASCII characters' })
  }
  // A key that is bound to projects must not be shown what another one was answered.
  const { accountId, projectIds } = request.principal
  const bound = projectIds === null ? null : [...projectIds].sort()
  const fingerprint = createHash('sha256')
    .update(JSON.stringify([request.path, lasting(request.body, operation), bound]))
    .digest('base64')
  return { accountId, operation: operation.name, key: request.header, fingerprint }
}

function lasting(body: unknown, { volatile }: Operation): unknown {
  if (volatile === undefined) return body
  return Object.fromEntries(Object.entries(Object(body)).filter(([name]) => !volatile.includes(name)))
}

export interface Idempotency {
  /**
   * Does the work in one transaction, together with the row that remembers its answer. A repetition waits for the
   * first one and gets its answer; if that one failed, the repetition does the work.
   */
  once(claim: Claim, transact: (work: Work) => Promise<Answer>, work: Work): Promise<Answer>
}

type Work = (transaction: Transaction) => Promise<Answer>

type IdempotencyTables = {
  idempotency_keys: { account_id: string; operation: string; key: string; answer: Buffer | null; created_at: Date }
}

/** What is kept, encrypted: answers hold secrets, and so do the bodies behind fingerprints. */
interface Kept {
  readonly fingerprint: string
  readonly answer: Answer
}

export function createIdempotency({ secrets }: { readonly secrets: SecretBox }): Idempotency {
  // Twins wait here, where waiting costs nothing. Of twins on two connections the database lets one through.
  const oneAtATime = createKeyedLock()

  const replay = async (transaction: Transaction, claim: Claim, context: string): Promise<Answer> => {
    const { answer: sealed } = await rowOf(transaction, claim).select('answer').executeTakeFirstOrThrow()
    if (sealed === null) throw new Error('an idempotency key was committed without its answer')
    const kept = JSON.parse(secrets.decrypt(sealed, context)) as Kept
    if (kept.fingerprint !== claim.fingerprint) {
      throw invalidRequest({ field: header, message: 'was used for another request; take a new one' })
    }
    return { ...kept.answer, headers: { ...kept.answer.headers, ...replayed } }
  }

  return {
    once(claim, transact, work) {
      const context = JSON.stringify(['idempotency', claim.accountId, claim.operation, claim.key])
      return oneAtATime(context, () =>
        transact(async (transaction) => {
          if (!(await take(transaction, claim))) return replay(transaction, claim, context)
          const answer = await work(transaction)
          const kept: Kept = { fingerprint: claim.fingerprint, answer }
          await transaction
            .withTables<IdempotencyTables>()
            .updateTable('idempotency_keys')
            .set({ answer: secrets.encrypt(JSON.stringify(kept), context) })
            .where('account_id', '=', claim.accountId)
            .where('operation', '=', claim.operation)
            .where('key', '=', claim.key)
            .execute()
          return answer
        }),
      )
    },
  }
}

function rowOf(transaction: Transaction, { accountId, operation, key }: Claim) {
  return transaction
    .withTables<IdempotencyTables>()
    .selectFrom('idempotency_keys')
    .where('account_id', '=', accountId)
    .where('operation', '=', operation)
    .where('key', '=', key)
}

/** Whether the key is this transaction's: new, or past its time. Waits for another transaction that has just taken it. */
async function take(transaction: Transaction, { accountId, operation, key }: Claim): Promise<boolean> {
  const { rows } = await sql`
    insert into idempotency_keys (account_id, operation, key) values (${accountId}, ${operation}, ${key})
    on conflict (account_id, operation, key) do update set answer = null, created_at = now()
      where idempotency_keys.created_at <= now() - make_interval(hours => ${keptHours})
    returning key`.execute(transaction)
  return rows.length > 0
}

/** Removes what is past its time; to be called now and then. */
export async function forgetIdempotencyKeys(database: Database): Promise<void> {
  // An hour late, so that no repetition on its way finds its row gone.
  const hours = keptHours + 1
  await sql`delete from idempotency_keys where created_at <= now() - make_interval(hours => ${hours})`.execute(database)
}
