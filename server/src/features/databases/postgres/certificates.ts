import { createPrivateKey, generateKeyPair, randomUUID, webcrypto, X509Certificate } from 'node:crypto'
import { chmod, chown, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { readOptional } from '../../../platform/files.ts'
import type { OsUser } from '../../../platform/users.ts'

export interface Certificates {
  /** Creates missing files, and a new certificate before the old one expires. Returns true for a new certificate. */
  ensure(): Promise<boolean>
  /** Returns the authority's certificate as PEM, with which clients verify that they reach this server. */
  authority(): Promise<string>
  readonly certificateFile: string
  readonly keyFile: string
}

interface CertificatesOptions {
  readonly directory: string
  /** The user that the clusters run as if the server is root; otherwise `null`. */
  readonly user: OsUser | null
  readonly names: readonly string[]
  readonly now?: () => Date
}

/**
 * PostgreSQL uses a new certificate at once, so this time only needs to exceed the time for which a server may be
 * stopped.
 */
const renewedDaysBefore = 60
const dayMs = 24 * 60 * 60_000

export function createCertificates(options: CertificatesOptions): Certificates {
  const { directory, user, names, now = () => new Date() } = options
  const file = (name: string): string => join(directory, name)
  const files = { authority: file('ca.pem'), authorityKey: file('ca.key') }
  const certificateFile = file('server.pem')
  const keyFile = file('server.key')

  const ensure = async (): Promise<boolean> => {
    if ((await readOptional(files.authority)) === undefined) await makeFolder(options, now())
    const [authority, authorityKey, key] = await Promise.all(
      [files.authority, files.authorityKey, keyFile].map((path) => readFile(path, 'utf8')),
    )
    await giveKey(keyFile, user)
    const current = await readOptional(certificateFile)
    if (current !== undefined && isGood(current, names, now())) return false
    const issuer = { certificate: authority ?? '', key: authorityKey ?? '' }
    const fresh = `${certificateFile}.${randomUUID()}`
    await writeFile(fresh, await issueCertificate(issuer, key ?? '', names, now()), { mode: 0o644, flush: true })
    await chmod(fresh, 0o644)
    await rename(fresh, certificateFile)
    return true
  }

  let ensuring: Promise<boolean> | undefined
  const ensureOnce: Certificates['ensure'] = () => {
    ensuring ??= ensure().finally(() => {
      ensuring = undefined
    })
    return ensuring
  }

  return {
    ensure: ensureOnce,
    async authority() {
      await ensureOnce()
      return readFile(files.authority, 'utf8')
    },
    certificateFile,
    keyFile,
  }
}

function isGood(pem: string, names: readonly string[], now: Date): boolean {
  const certificate = new X509Certificate(pem)
  const hasName = (name: string) => (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name))
  const leftMs = certificate.validToDate.getTime() - now.getTime()
  return leftMs > renewedDaysBefore * dayMs && names.every((name) => hasName(name) !== undefined)
}

/**
 * Creates the authority and the server's key in a folder, which is renamed once it is complete. Concurrent processes
 * use the folder that was renamed first.
 */
async function makeFolder({ directory, user }: CertificatesOptions, now: Date): Promise<void> {
  const temporary = `${directory}.${randomUUID()}`
  await mkdir(dirname(directory), { recursive: true })
  try {
    // The clusters' user can open files in the folder, but cannot list it.
    await mkdir(temporary, { mode: user === null ? 0o700 : 0o711 })
    await chmod(temporary, user === null ? 0o700 : 0o711)
    const { certificate, key } = await makeAuthority(now)
    await writeFile(join(temporary, 'ca.key'), key, { mode: 0o600, flush: true })
    await writeFile(join(temporary, 'server.key'), await makeKey(), { mode: 0o600, flush: true })
    await writeFile(join(temporary, 'ca.pem'), certificate, { mode: 0o644, flush: true })
    await rename(temporary, directory)
  } catch (error) {
    await rm(temporary, { recursive: true, force: true })
    if (!['ENOTEMPTY', 'EEXIST'].includes(String((error as NodeJS.ErrnoException).code))) throw error
  }
}

/** PostgreSQL accepts only a key that no other user can read. */
async function giveKey(path: string, user: OsUser | null): Promise<void> {
  if (user === null || (await stat(path)).uid === user.uid) return
  await chown(path, user.uid, user.gid)
}

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
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return { certificate: certificate.toString('pem'), key }
}

/**
 * Returns a certificate as PEM.
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
