import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'

/** 256 random bits in characters that need no escape in an address. */
export function newPassword(): string {
  return randomBytes(32).toString('base64url')
}

/** PostgreSQL's own default. The password is random, so that more would add nothing. */
const iterations = 4096

/**
 * What PostgreSQL stores of a password (RFC 5803, SCRAM-SHA-256). It is computed here so that the password itself never
 * travels to the engine, where a statement may end up in a log.
 */
export async function scramVerifier(password: string, salt: Buffer = randomBytes(16)): Promise<string> {
  const salted = await promisify(pbkdf2)(password, salt, iterations, 32, 'sha256')
  const keyed = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest()
  const storedKey = createHash('sha256').update(keyed(salted, 'Client Key')).digest()
  const serverKey = keyed(salted, 'Server Key')
  const [saltText, storedText, serverText] = [salt, storedKey, serverKey].map((bytes) => bytes.toString('base64'))
  return `SCRAM-SHA-256$${iterations}:${saltText}$${storedText}:${serverText}`
}

/** In the specification's form; the role and the database bear the same name. */
export function connectionString(options: {
  readonly name: string
  readonly password: string
  readonly host: string
  readonly port: number
}): string {
  const { name, password, host, port } = options
  return `postgresql://${name}:${password}@${host.includes(':') ? `[${host}]` : host}:${port}/${name}`
}
