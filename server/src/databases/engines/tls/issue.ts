import { createPrivateKey, generateKeyPair, webcrypto } from 'node:crypto'
import { isIP } from 'node:net'
import { promisify } from 'node:util'
import { dayMs } from './certificates.ts'

/** A certificate with its key, both as PEM. */
export interface Issued {
  readonly certificate: string
  readonly key: string
}

const curve = { name: 'ECDSA', namedCurve: 'P-256' } as const
const signing = { ...curve, hash: 'SHA-256' } as const
/** Clients keep the authority's certificate for as long as they use the server. */
const authorityDays = 20 * 365
const serverDays = 365
/** For clients whose clocks are behind. */
const earlierDays = 1

export async function makeAuthority(now: Date): Promise<Issued> {
  const x509 = await library()
  const key = await makeKey()
  const keys = await keyPair(key)
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    ...validity(now, authorityDays),
    name: "CN=Fairlead users' databases",
    keys,
    signingAlgorithm: signing,
    extensions: [
      // The authority signs certificates of servers, but no further authorities.
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return { certificate: certificate.toString('pem'), key }
}

/**
 * Returns a server's certificate as PEM, signed by the authority.
 *
 * @param key of the server, as PEM
 * @param names the DNS names and addresses that clients use
 */
export async function issueCertificate(
  authority: Issued,
  key: string,
  names: readonly string[],
  now: Date,
): Promise<string> {
  const x509 = await library()
  const issuer = new x509.X509Certificate(authority.certificate)
  const [keys, signer] = await Promise.all([keyPair(key), keyPair(authority.key)])
  const certificate = await x509.X509CertificateGenerator.create({
    ...validity(now, serverDays),
    subject: 'CN=PostgreSQL',
    issuer: issuer.subject,
    publicKey: keys.publicKey,
    signingKey: signer.privateKey,
    signingAlgorithm: signing,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(
        names.map((name) => ({ type: isIP(name) === 0 ? ('dns' as const) : ('ip' as const), value: name })),
      ),
      await x509.AuthorityKeyIdentifierExtension.create(signer.publicKey),
    ],
  })
  return certificate.toString('pem')
}

/** Makes a private key, as PEM. */
export async function makeKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' })
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
}

async function keyPair(pem: string): Promise<{ privateKey: webcrypto.CryptoKey; publicKey: webcrypto.CryptoKey }> {
  const { subtle } = webcrypto
  const key = createPrivateKey(pem).toCryptoKey(curve, true, ['sign'])
  // The private key includes the point of the curve.
  const { kty, crv, x, y } = await subtle.exportKey('jwk', key)
  const point = Object.fromEntries(Object.entries({ kty, crv, x, y }).filter(([, value]) => value !== undefined))
  return { privateKey: key, publicKey: await subtle.importKey('jwk', point, curve, true, ['verify']) }
}

const validity = (now: Date, days: number) => ({
  notBefore: new Date(now.getTime() - earlierDays * dayMs),
  notAfter: new Date(now.getTime() + days * dayMs),
})

/** Loads the library late: it is large, and needed once a year. It needs a polyfill that is loaded first. */
async function library(): Promise<typeof import('@peculiar/x509')> {
  await import('reflect-metadata')
  return import('@peculiar/x509')
}
