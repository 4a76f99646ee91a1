import type { Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { SecretBox } from '../../platform/secrets/secret-box.ts'
import { keyContext, tablesOf } from '../tables.ts'
import type { CheckedUpload } from './check-upload.ts'

/** More than any account needs, and few enough to look through. */
export const mostUploads = 200

/** Stores a checked certificate with its key encrypted, and returns its id. */
export async function insertUpload(
  transaction: Transaction,
  secrets: SecretBox,
  owner: { readonly accountId: string; readonly projectId: string | null },
  checked: CheckedUpload,
): Promise<string> {
  const id = newId('certificate')
  await tablesOf(transaction)
    .insertInto('certificates')
    .values({
      id,
      account_id: owner.accountId,
      project_id: owner.projectId,
      source: 'uploaded',
      names: [...checked.names],
      chain: checked.chain,
      private_key: secrets.encrypt(checked.key, keyContext(id)),
      issuer: checked.issuer,
      serial: checked.serial,
      not_before: checked.notBefore,
      expires_at: checked.expiresAt,
    })
    .execute()
  return id
}

export async function countUploads(transaction: Transaction, accountId: string): Promise<number> {
  const { count } = await tablesOf(transaction)
    .selectFrom('certificates')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('account_id', '=', accountId)
    .where('source', '=', 'uploaded')
    .executeTakeFirstOrThrow()
  return Number(count)
}
