import { randomBytes } from 'node:crypto'
import { rename, writeFile } from 'node:fs/promises'
import type { Database } from '../database.ts'
import { readOptional } from '../files.ts'
import { createSecretBox, type SecretBox } from './secret-box.ts'

type SettingsTables = {
  settings: { key: string; value: Buffer }
}

const checkName = 'secret_key_check'
const checkText = 'fairlead'

/**
 * Opens the box for stored secrets. Its key is the operator's (`given`) or the one in `file`, which the first start makes.
 * Rejects when the key does not decrypt the secrets of the database: continuing with it would lose all of them.
 */
export async function openSecretBox(options: {
  database: Database
  given: string | undefined
  file: string
}): Promise<SecretBox> {
  const stored = options.given ?? (await readOptional(options.file))?.trim()
  const key = stored === undefined ? randomBytes(32) : Buffer.from(stored, 'base64')
  if (key.length !== 32)
    throw new Error(`The key in ${options.file} is not 32 bytes in base64. Restore the original file.`)
  const box = createSecretBox(key)

  const db = options.database.withTables<SettingsTables>()
  const check = await db.selectFrom('settings').select('value').where('key', '=', checkName).executeTakeFirst()
  if (check !== undefined) {
    if (!opens(box, check.value)) throw wrongKey(options)
    return box
  }
  if (stored === undefined) await writeKey(options.file, key)
  await db
    .insertInto('settings')
    .values({ key: checkName, value: box.encrypt(checkText, checkName) })
    .execute()
  return box
}

function opens(box: SecretBox, sealed: Buffer): boolean {
  try {
    return box.decrypt(sealed, checkName) === checkText
  } catch {
    return false
  }
}

function wrongKey(options: { given: string | undefined; file: string }): Error {
  const source = options.given === undefined ? `in ${options.file}` : 'in FAIRLEAD_SECRET_KEY'
  return new Error(
    `The secret key ${source} is not the one that this database's secrets were encrypted with. ` +
      'Put the original key back; without it they cannot be read.',
  )
}

async function writeKey(file: string, key: Buffer): Promise<void> {
  await writeFile(`${file}.new`, `${key.toString('base64')}\n`, { mode: 0o600, flush: true })
  await rename(`${file}.new`, file)
}
