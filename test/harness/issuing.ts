import 'reflect-metadata'
import { createPrivateKey, generateKeyPairSync, type KeyObject, webcrypto } from 'node:crypto'
import * as x509 from '@peculiar/x509'

/** Authorities and certificates for tests, including invalid ones. */
export interface Issued {
  readonly certificate: string
  readonly key: string
  readonly name: string
}

const dayMs = 24 * 60 * 60_000

export interface Issue {
  readonly names?: readonly string[]
  /** The subject, such as `CN=www.example.com`. */
  readonly subject?: string
  /** Without an issuer the certificate is self-signed. */
  readonly issuer?: Issued
  readonly key?: KeyObject
  /** Days from now. */
  readonly from?: number
  readonly to?: number
  readonly isAuthority?: boolean
  /** By default the usage of servers; null for no usage. */
  readonly purpose?: string | null
  readonly hash?: 'SHA-1' | 'SHA-256'
  readonly addresses?: readonly string[]
  /** The address of the issuer's certificate, as authorities of the web write it. */
  readonly issuerAt?: string
}

export const ecKey = (namedCurve = 'P-256'): KeyObject => generateKeyPairSync('ec', { namedCurve }).privateKey
export const rsaKey = (modulusLength = 2048): KeyObject => generateKeyPairSync('rsa', { modulusLength }).privateKey

export const pemOf = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' }).toString()

/** Issues a certificate. By default it is valid from an hour ago, for a day. */
export async function issue(asked: Issue = {}): Promise<Issued> {
  const { issuer, hash = 'SHA-256', purpose = x509.ExtendedKeyUsage.serverAuth, names = [], addresses = [] } = asked
  const key = asked.key ?? ecKey()
  const signer = issuer === undefined ? key : createPrivateKey(issuer.key)
  const name = asked.subject ?? `CN=${names[0] ?? 'test'}`
  const keys = await pairOf(key, hash)
  const alternatives = [
    ...names.map((value) => ({ type: 'dns' as const, value })),
    ...addresses.map((value) => ({ type: 'ip' as const, value })),
  ]
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: `01${[...webcrypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`,
    notBefore: new Date(Date.now() + (asked.from ?? -1 / 24) * dayMs),
    notAfter: new Date(Date.now() + (asked.to ?? 1) * dayMs),
    subject: name,
    issuer: issuer?.name ?? name,
    publicKey: keys.publicKey,
    signingKey: (await pairOf(signer, hash)).privateKey,
    signingAlgorithm: algorithmOf(signer, hash),
    extensions: [
      new x509.BasicConstraintsExtension(asked.isAuthority ?? false, undefined, true),
      ...(purpose === null || asked.isAuthority === true ? [] : [new x509.ExtendedKeyUsageExtension([purpose])]),
      ...(alternatives.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension(alternatives)]),
      ...(asked.issuerAt === undefined
        ? []
        : [new x509.AuthorityInfoAccessExtension({ caIssuers: [new x509.GeneralName('url', asked.issuerAt)] })]),
    ],
  })
  return { certificate: `${certificate.toString('pem')}\n`, key: pemOf(key), name }
}

/** Issues an authority's certificate. */
export const authority = (asked: Issue = {}): Promise<Issued> =>
  issue({ subject: 'CN=Test Authority, O=Tests', isAuthority: true, ...asked })

function algorithmOf(key: KeyObject, hash: string) {
  if (key.asymmetricKeyType === 'rsa') return { name: 'RSASSA-PKCS1-v1_5', hash }
  if (key.asymmetricKeyType === 'ed25519') return { name: 'Ed25519', hash }
  const curves: Record<string, string> = { prime256v1: 'P-256', secp384r1: 'P-384', secp521r1: 'P-521' }
  return { name: 'ECDSA', namedCurve: curves[key.asymmetricKeyDetails?.namedCurve ?? ''] ?? 'P-256', hash }
}

async function pairOf(key: KeyObject, hash: string): Promise<webcrypto.CryptoKeyPair> {
  const algorithm = algorithmOf(key, hash)
  const der = key.export({ type: 'pkcs8', format: 'der' })
  const privateKey = await webcrypto.subtle.importKey('pkcs8', der, algorithm, true, ['sign'])
  const { createPublicKey } = await import('node:crypto')
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' })
  return { privateKey, publicKey: await webcrypto.subtle.importKey('spki', spki, algorithm, true, ['verify']) }
}
