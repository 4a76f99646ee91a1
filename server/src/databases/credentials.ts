import { createHash, createHmac, pbkdf2, randomBytes, randomInt } from 'node:crypto'
import { promisify } from 'node:util'

/**
 * Returns a name for a role, a database or a copy in the engine: 26 random letters. PostgreSQL shows the names to all
 * users of an instance, so they reveal nothing about the tenant, the project or the id.
 */
export function newEngineName(): string {
  return Array.from({ length: 26 }, () => String.fromCharCode(randomInt(97, 123))).join('')
}

/** Returns a password of 256 random bits, in characters that need no escaping in a URL. */
export function newPassword(): string {
  return randomBytes(32).toString('base64url')
}

/** PostgreSQL's default. More iterations would not make a random password harder to guess. */
const iterations = 4096

/**
 * Computes the verifier that PostgreSQL stores for a password (RFC 5803, SCRAM-SHA-256). The password itself is never
 * sent to the engine, where a statement may end up in a log.
 */
export async function scramVerifier(password: string, salt: Buffer = randomBytes(16)): Promise<string> {
  const salted = await promisify(pbkdf2)(password, salt, iterations, 32, 'sha256')
  const keyed = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest()
  const storedKey = createHash('sha256').update(keyed(salted, 'Client Key')).digest()
  const serverKey = keyed(salted, 'Server Key')
  const [saltText, storedText, serverText] = [salt, storedKey, serverKey].map((bytes) => bytes.toString('base64'))
  return `SCRAM-SHA-256$${iterations}:${saltText}$${storedText}:${serverText}`
}

/** Builds a connection string in the specification's form. */
export function connectionString(options: {
  readonly user: string
  readonly name: string
  readonly password: string
  readonly host: string
  readonly port: number
}): string {
  const { user, name, password, host, port } = options
  return `postgresql://${user}:${password}@${host.includes(':') ? `[${host}]` : host}:${port}/${name}`
}
