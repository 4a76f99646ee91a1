import { createPrivateKey, generateKeyPair, type KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import { blocksIn, isPrivateKey } from './blocks.ts'
import type { PemProblem } from './problem.ts'

const problem = (code: string, message: string): PemProblem => ({ field: 'private_key', code, message })

const weakestRsaBits = 2048
/** Each handshake computes with it at the edge, which all accounts share: larger ones cost more than they give. */
export const longestOwnRsaBits = 4096
/** Clients alone compute with it. */
export const longestIssuerRsaBits = 8192
/** The curves that browsers support. */
const curves = ['prime256v1', 'secp384r1']

/** Makes a private key on P-256, which is small and known to every browser and authority, as PEM. */
export async function newKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' })
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
}

/** Reads a private key from PEM. Returns why it cannot be used instead. */
export function readKey(text: string): KeyObject | PemProblem {
  const blocks = blocksIn(text)
  const keys = blocks.filter(isPrivateKey)
  const [key, ...more] = keys
  if (key === undefined) return noKey(blocks.map(({ label }) => label))
  if (more.length > 0) return problem('several_keys', 'has several private keys; give the one of the certificate alone')
  if (key.isEncrypted) {
    const hint = 'decrypt it first, such as by: openssl pkey -in key.pem -out plain.pem'
    return problem('encrypted_key', `is encrypted with a password, which a server cannot ask for; ${hint}`)
  }
  try {
    return createPrivateKey(key.text)
  } catch {
    return problem('malformed_key', 'has a private key that cannot be read; copy the whole file again')
  }
}

function noKey(labels: readonly string[]): PemProblem {
  if (labels.some((label) => label.endsWith('PUBLIC KEY')))
    return problem('public_key', 'is a public key; give the private one')
  if (labels.some((label) => label.endsWith('CERTIFICATE')))
    return problem('certificate_as_key', 'is a certificate; give the private key')
  return problem('no_key', 'has no private key in PEM: a block that begins with -----BEGIN PRIVATE KEY-----')
}

/** Returns why a key, public or private, is too weak, too long or not supported by browsers; null when it is fine. */
export function strengthProblem(
  { asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject,
  longestRsaBits: number,
): string | null {
  if (type === 'rsa') {
    const bits = details?.modulusLength ?? 0
    if (bits < weakestRsaBits) return `has ${bits} bits; RSA needs at least ${weakestRsaBits}`
    return bits > longestRsaBits ? `has ${bits} bits; RSA may have at most ${longestRsaBits}` : null
  }
  if (type === 'ec') {
    const curve = details?.namedCurve ?? 'unknown'
    return curves.includes(curve) ? null : `is on the curve ${curve}; browsers support P-256 and P-384`
  }
  return `is of the type ${type ?? 'unknown'}; browsers support RSA and ECDSA`
}
