import { randomUUID, X509Certificate } from 'node:crypto'
import { chmod, chown, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { dirname, join } from 'node:path'
import { readOptional } from '../../../platform/files.ts'
import type { OsUser } from '../../../platform/users.ts'
import { issueCertificate, makeAuthority, makeKey } from './issue.ts'

/** The certificate of the clusters of users' databases, signed by an authority that belongs to this data directory. */
export interface Certificates {
  /** Creates missing files, and a new certificate before the old one expires. Returns true for a new certificate. */
  ensure(): Promise<boolean>
  /** Returns the authority's certificate as PEM, with which clients verify that they reach this server. */
  authority(): Promise<string>
  /** The absolute paths of the server's certificate and key, which the clusters' user can read. */
  readonly certificateFile: string
  readonly keyFile: string
}

export interface CertificatesOptions {
  /** An absolute path; the folder is created when needed. */
  readonly directory: string
  /** The user that the clusters run as if the server is root; otherwise `null`. */
  readonly user: OsUser | null
  /** The DNS names and addresses under which clients reach the clusters. */
  readonly names: readonly string[]
  readonly now?: () => Date
}

/**
 * PostgreSQL uses a new certificate at once, so this time only needs to exceed the time for which a server may be
 * stopped.
 */
const renewedDaysBefore = 60
export const dayMs = 24 * 60 * 60_000

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

/** True for a certificate that has all these names and is valid for long enough. */
function isGood(pem: string, names: readonly string[], now: Date): boolean {
  const certificate = new X509Certificate(pem)
  const hasName = (name: string) => (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name))
  const leftMs = certificate.validToDate.getTime() - now.getTime()
  return leftMs > renewedDaysBefore * dayMs && names.every((name) => hasName(name) !== undefined)
}

/**
 * Creates the authority and the server's key in a folder that is renamed once it is complete. If several processes do
 * this at once, all of them use the folder that is renamed first.
 */
async function makeFolder({ directory, user }: CertificatesOptions, now: Date): Promise<void> {
  const temporary = `${directory}.${randomUUID()}`
  await mkdir(dirname(directory), { recursive: true })
  try {
    // The clusters' user can pass through the folder but cannot list it.
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
