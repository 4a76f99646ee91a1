import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { SecretBox } from '../../platform/secrets.ts'

/** The path of downloads, outside /v1: they need only the file's address and no API key. */
export const filesPath = '/files'

/** The download addresses of files. Each contains a secret of 192 random bits, which is stored encrypted. */
export interface FileAddresses {
  /** Returns the address of a new file, and the encrypted `token` for its row. */
  create(id: string): { readonly url: string; readonly token: Buffer }
  urlOf(file: FileKey): string
  matches(file: FileKey, given: string): boolean
}

interface FileKey {
  readonly id: string
  readonly token: Buffer
}

/** `publicOrigin` is the server's public address without a path, such as `https://fairlead.example.com`. */
export function createFileAddresses(dependencies: {
  readonly secrets: SecretBox
  readonly publicOrigin: string
}): FileAddresses {
  const { secrets, publicOrigin } = dependencies
  const urlWith = (id: string, secret: string) => `${publicOrigin}${filesPath}/${id}/${secret}`

  return {
    create(id) {
      const secret = randomBytes(24).toString('base64url')
      return { url: urlWith(id, secret), token: secrets.encrypt(secret, id) }
    },
    urlOf: ({ id, token }) => urlWith(id, secrets.decrypt(token, id)),
    matches: ({ id, token }, given) => equal(secrets.decrypt(token, id), given),
  }
}

/** Compares in constant time, so that the duration reveals nothing about a guess. */
function equal(one: string, other: string): boolean {
  return timingSafeEqual(digest(one), digest(other))
}

function digest(secret: string): Buffer {
  return createHash('sha256').update(secret).digest()
}
