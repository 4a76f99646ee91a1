import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { invalidRequest } from '../contract/errors.ts'
import type { Operation } from '../contract/operations.ts'
import type { Database, Transaction } from '../platform/database.ts'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import type { SecretBox } from '../platform/secrets.ts'
import type { Answer } from './answers.ts'
import type { Principal } from './principal.ts'

const header = 'Idempotency-Key'
const replayed = { 'Idempotent-Replayed': 'true' } as const

export interface Claim extends KeyId {
  /** A hash of all parts in which a repetition must be equal. */
  readonly fingerprint: string
}

/** True for operations that accept an `Idempotency-Key`: creations and actions that answer with JSON. */
export function takesIdempotencyKey(operation: Pick<Operation, 'method' | 'upload' | 'waits' | 'text'>): boolean {
  return operation.method === 'POST' && !operation.upload && !operation.waits && !operation.text
}

/** Returns the claim of a request; `undefined` without the header. Throws `invalid_request` for a malformed header. */
export function claimOf(
  operation: Operation,
  request: {
    readonly header: string | string[] | undefined
    readonly principal: Principal
    readonly path: string
    readonly body: unknown
  },
): Claim | undefined {
  if (request.header === undefined) return undefined
  if (operation.upload) throw invalidRequest({ field: header, message: 'is not accepted by uploads: look at the list' })
  if (!takesIdempotencyKey(operation)) return undefined
  if (typeof request.header !== 'string' || !/^[\x20-\x7e]{1,255}$/.test(request.header)) {
    throw invalidRequest({ field: header, message: 'must be 1 to 255 printable ASCII characters' })
  }
  // A key that is bound to projects never gets the answer to a key with other rights.
  const { accountId, projectIds } = request.principal
  const bound = projectIds === null ? null : [...projectIds].sort()
  const fingerprint = createHash('sha256')
    .update(JSON.stringify([request.path, withoutVolatile(request.body, operation), bound]))
    .digest('base64')
  return { accountId, operation: operation.name, key: request.header, fingerprint }
}

function withoutVolatile(body: unknown, { volatile }: Operation): unknown {
  if (volatile === undefined) return body
  return Object.fromEntries(Object.entries(Object(body)).filter(([name]) => !volatile.includes(name)))
}

type Change = (transaction: Transaction) => Promise<Answer>

export interface Idempotency {
  /**
   * Runs a change and stores its answer in one transaction. A repetition waits for the first request and gets its
   * answer; if the first request failed, the repetition runs the change.
   */
  once(claim: Claim, transact: (change: Change) => Promise<Answer>, change: Change): Promise<Answer>
}

/** Encrypted, because answers and bodies hold secrets. */
interface Stored {
  readonly fingerprint: string
  readonly answer: Answer
}

export function createIdempotency({ secrets }: { readonly secrets: SecretBox }): Idempotency {
  // Repetitions on this server wait here without a connection. Across servers, the database lets one through.
  const oneAtATime = createKeyedLock()

  const replay = async (transaction: Transaction, claim: Claim, context: string): Promise<Answer> => {
    const stored = JSON.parse(secrets.decrypt(await storedAnswer(transaction, claim), context)) as Stored
    if (stored.fingerprint !== claim.fingerprint) {
      throw invalidRequest({ field: header, message: 'was used for another request; take a new one' })
    }
    return { ...stored.answer, headers: { ...stored.answer.headers, ...replayed } }
  }

  return {
    once(claim, transact, change) {
      const context = JSON.stringify(['idempotency', claim.accountId, claim.operation, claim.key])
      return oneAtATime(context, () =>
        transact(async (transaction) => {
          if (!(await takeKey(transaction, claim))) return replay(transaction, claim, context)
          const answer = await change(transaction)
          const stored: Stored = { fingerprint: claim.fingerprint, answer }
          await storeAnswer(transaction, claim, secrets.encrypt(JSON.stringify(stored), context))
          return answer
        }),
      )
    },
  }
}

/** Answers are stored for this time, for repetitions of their requests. */
const keptHours = 24

interface KeyId {
  readonly accountId: string
  readonly operation: string
  readonly key: string
}

type IdempotencyTables = {
  idempotency_keys: { account_id: string; operation: string; key: string; answer: Buffer | null; created_at: Date }
}

/**
 * Inserts the key, or takes over an expired key. Waits for a transaction that has just inserted it. Returns false when
 * another request has used it.
 */
async function takeKey(transaction: Transaction, { accountId, operation, key }: KeyId): Promise<boolean> {
  const { rows } = await sql`
    insert into idempotency_keys (account_id, operation, key) values (${accountId}, ${operation}, ${key})
    on conflict (account_id, operation, key) do update set answer = null, created_at = now()
      where idempotency_keys.created_at <= now() - make_interval(hours => ${keptHours})
    returning key`.execute(transaction)
  return rows.length > 0
}

async function storeAnswer(transaction: Transaction, id: KeyId, answer: Buffer): Promise<void> {
  await transaction
    .withTables<IdempotencyTables>()
    .updateTable('idempotency_keys')
    .set({ answer })
    .where('account_id', '=', id.accountId)
    .where('operation', '=', id.operation)
    .where('key', '=', id.key)
    .execute()
}

/**
 * Returns the answer that was stored under a key. Throws when there is no answer, because key and answer are written in
 * one transaction.
 */
async function storedAnswer(transaction: Transaction, id: KeyId): Promise<Buffer> {
  const { answer } = await transaction
    .withTables<IdempotencyTables>()
    .selectFrom('idempotency_keys')
    .select('answer')
    .where('account_id', '=', id.accountId)
    .where('operation', '=', id.operation)
    .where('key', '=', id.key)
    .executeTakeFirstOrThrow()
  if (answer === null) throw new Error('an idempotency key was committed without its answer')
  return answer
}

export async function forgetIdempotencyKeys(database: Database): Promise<void> {
  // An hour later, so that a running repetition still finds the row.
  const hours = keptHours + 1
  await sql`delete from idempotency_keys where created_at <= now() - make_interval(hours => ${hours})`.execute(database)
}
