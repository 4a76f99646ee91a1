import { ReceiverError } from '../errors.ts'
import { parseSecret } from './signature.ts'
import type { SigningKey } from './signing-key.ts'

/** The secrets (`whsec_…`) of a webhook, several during a rotation, or a function that is called on every request. */
export type Secrets = readonly string[] | (() => readonly string[] | Promise<readonly string[]>)

/** Returns the keys of the secrets, in the same order. */
export type Keys = () => readonly SigningKey[] | Promise<readonly SigningKey[]>

/**
 * Validates a list of secrets immediately, and a function's secrets on each request.
 * @throws ReceiverError `invalid_secret`
 */
export function createKeys(secrets: Secrets): Keys {
  if (typeof secrets !== 'function') {
    const keys = parseSecrets(secrets, new Map())
    return () => keys
  }
  // Cached between calls, because creating a key costs more than using it.
  let known: ReadonlyMap<string, SigningKey> = new Map()
  return async () => {
    const current = await secrets()
    const keys = parseSecrets(current, known)
    known = new Map(current.map((secret, index) => [secret, keys[index] as SigningKey]))
    return keys
  }
}

function parseSecrets(secrets: readonly string[], known: ReadonlyMap<string, SigningKey>): readonly SigningKey[] {
  if (!Array.isArray(secrets) || secrets.length === 0) {
    throw new ReceiverError(
      'invalid_secret',
      '`secrets` is empty or not a list. Pass a list with the secret that Fairlead showed when the webhook was created.',
    )
  }
  return secrets.map((secret) => known.get(secret) ?? parseSecret(secret))
}
