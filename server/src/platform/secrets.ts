import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { link, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Database } from './database.ts'
import { readOptional, syncDirectory } from './files.ts'

/** Encrypts secrets that must be readable again. The context (such as a row's id) binds a ciphertext to that row. */
export interface SecretBox {
  encrypt(plaintext: string, context: string): Buffer
  /** Throws for another key, another context, or a changed ciphertext. */
  decrypt(sealed: Buffer, context: string): string
}

const format = 1
const ivBytes = 12
const tagBytes = 16

/** Uses AES-256-GCM; `key` is 32 bytes. The sealed form is: format byte, 12-byte IV, 16-byte tag, ciphertext. */
export function createSecretBox(key: Buffer): SecretBox {
  return {
    encrypt(plaintext, context) {
      const iv = randomBytes(ivBytes)
      const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(context))
      const ciphertext = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()])
      return Buffer.concat([Buffer.of(format), iv, cipher.getAuthTag(), ciphertext])
    },
    decrypt(sealed, context) {
      if (sealed[0] !== format)
        throw new Error('This secret is stored in a format that this version of Fairlead does not know.')
      const iv = sealed.subarray(1, 1 + ivBytes)
      const tag = sealed.subarray(1 + ivBytes, 1 + ivBytes + tagBytes)
      const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: tagBytes })
        .setAAD(Buffer.from(context))
        .setAuthTag(tag)
      return decipher.update(sealed.subarray(1 + ivBytes + tagBytes), undefined, 'utf8') + decipher.final('utf8')
    },
  }
}

type SettingsTables = {
  settings: { key: string; value: Buffer }
}

const checkName = 'secret_key_check'
const checkText = 'fairlead'

/**
 * Opens the box for stored secrets. Its key comes from the operator (`given`) or from `file`, which the first start
 * creates. Servers that start for the first time at the same moment agree on one key. Rejects when the key does not
 * decrypt the secrets of the database: continuing with it would lose all of them.
 */
export async function openSecretBox(options: {
  database: Database
  given: string | undefined
  file: string
}): Promise<SecretBox> {
  const { database, given, file } = options
  // Read before the file. A server writes the check after the file, so a check without a file means that the key is
  // lost.
  const check = await readCheck(database)
  const stored = given ?? (await readOptional(file)) ?? (check === undefined ? await makeKey(file) : undefined)
  const box = stored === undefined ? undefined : createSecretBox(parseKey(stored, file))
  const agreed = check ?? (box && (await agreeOnCheck(database, box)))
  if (box === undefined || agreed === undefined || !opens(box, agreed)) throw wrongKey(options)
  return box
}

async function readCheck(database: Database): Promise<Buffer | undefined> {
  const db = database.withTables<SettingsTables>()
  const row = await db.selectFrom('settings').select('value').where('key', '=', checkName).executeTakeFirst()
  return row?.value
}

/** Writes the check of the box's key, unless another server was faster, and returns the stored check. */
async function agreeOnCheck(database: Database, box: SecretBox): Promise<Buffer | undefined> {
  await database
    .withTables<SettingsTables>()
    .insertInto('settings')
    .values({ key: checkName, value: box.encrypt(checkText, checkName) })
    .onConflict((conflict) => conflict.column('key').doNothing())
    .execute()
  return readCheck(database)
}

function parseKey(text: string, file: string): Buffer {
  const key = Buffer.from(text.trim(), 'base64')
  if (key.length !== 32) throw new Error(`The key in ${file} is not 32 bytes in base64. Restore the original file.`)
  return key
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
    `The secret key ${source} did not encrypt this database's secrets. ` +
      'Put the original key back; without it they cannot be read.',
  )
}

/**
 * Creates the file with a new key, complete or not at all, and returns its text. If another server was faster, returns
 * the text of its file.
 */
async function makeKey(file: string): Promise<string> {
  const temporary = `${file}.${randomBytes(6).toString('hex')}.new`
  try {
    await writeFile(temporary, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600, flush: true })
    // A link never replaces a file, unlike a rename.
    await link(temporary, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(temporary, { force: true })
  }
  await syncDirectory(dirname(file))
  return readFile(file, 'utf8')
}
