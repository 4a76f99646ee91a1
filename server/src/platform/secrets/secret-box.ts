import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

/** Encrypts secrets that must be readable again. The context (such as a row's id) binds a ciphertext to that row. */
export interface SecretBox {
  encrypt(plaintext: string, context: string): Buffer
  /** Throws when the key or the context is another one, or the ciphertext was changed. */
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
