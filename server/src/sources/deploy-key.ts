import { createHash, createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'

/** A key that an app has for its repository alone. */
export interface DeployKey {
  /** The private part, as PKCS#8 in PEM. */
  readonly privateKey: string
  /** The public part in the form of `authorized_keys`, without a comment. */
  readonly publicKey: string
}

const keyType = 'ssh-ed25519'

/** Makes a key of Ed25519 (RFC 8032). */
export function makeDeployKey(): DeployKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const { x = '' } = publicKey.export({ format: 'jwk' })
  const blob = Buffer.concat([sshString(keyType), sshString(Buffer.from(x, 'base64url'))])
  return {
    privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
    publicKey: `${keyType} ${blob.toString('base64')}`,
  }
}

/** Returns the bytes of a public key as ssh passes them on (RFC 8709). */
export const blobOf = (publicKey: string): Buffer => Buffer.from(publicKey.split(' ')[1] ?? '', 'base64')

/** Returns the signature of `data` as ssh passes it on (RFC 8709). */
export function signatureOf({ privateKey }: Pick<DeployKey, 'privateKey'>, data: Buffer): Buffer {
  return Buffer.concat([sshString(keyType), sshString(sign(null, data, createPrivateKey(privateKey)))])
}

/** Returns the fingerprint of a public key, as ssh shows it. */
export const fingerprintOf = (publicKey: string): string =>
  `SHA256:${createHash('sha256').update(blobOf(publicKey)).digest('base64').replace(/=+$/, '')}`

/** Returns a string of the ssh protocol (RFC 4251): its length in four bytes, and its bytes. */
export function sshString(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content as string)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}
