import { type KeyObject, X509Certificate } from 'node:crypto'
import { blocksIn, certificateBlocks, isPrivateKey } from './blocks.ts'
import { namesOf } from './names.ts'
import type { PemProblem } from './problem.ts'

const problem = (code: string, message: string): PemProblem => ({ field: 'certificate', code, message })

/** More than any authority sends. */
const longestChain = 10

/** The certificates of a chain, that of the site first. */
export type Chain = readonly [X509Certificate, ...X509Certificate[]]

/** The facts of a certificate that are kept beside it. */
export interface CertificateFacts {
  /** PEM without anything around it. */
  readonly chain: string
  readonly names: readonly string[]
  readonly issuer: string
  /** In hexadecimal digits. */
  readonly serial: string
  readonly notBefore: Date
  readonly expiresAt: Date
}

/** Reads a chain from PEM. Returns why it cannot be read instead. */
export function readChain(text: string): Chain | PemProblem {
  const blocks = certificateBlocks(text)
  if (blocks.length === 0) return noCertificate(text)
  if (blocks.length > longestChain) {
    return problem('long_chain', `has ${blocks.length} certificates; a chain has at most ${longestChain}`)
  }
  if (blocksIn(text).some(isPrivateKey)) {
    return problem('key_in_chain', 'has a private key, too; give that as private_key alone')
  }
  const certificates = blocks.map(parse)
  const [first, ...others] = certificates
  if (first === undefined || certificates.includes(undefined)) {
    return problem('malformed', 'has a certificate that cannot be read; copy the whole file again')
  }
  return [first, ...others.filter((each) => each !== undefined)]
}

function noCertificate(text: string): PemProblem {
  const labels = blocksIn(text).map(({ label }) => label)
  if (labels.some((label) => label.endsWith('CERTIFICATE REQUEST'))) {
    return problem('request', 'is a request for a certificate; give the certificate that the authority has made of it')
  }
  if (labels.some((label) => label.endsWith('PRIVATE KEY'))) {
    return problem('key_as_certificate', 'is a private key; give the certificate')
  }
  return problem(
    'no_certificate',
    'has no certificate in PEM: a block that begins with -----BEGIN CERTIFICATE----- and has its end',
  )
}

function parse(text: string): X509Certificate | undefined {
  try {
    return new X509Certificate(text)
  } catch {
    return undefined
  }
}

/** Returns why a chain does not hold together; null when each certificate is issued by the next one. */
export function linkProblem(chain: Chain): PemProblem | null {
  for (const [index, each] of chain.entries()) {
    const issuer = chain[index + 1]
    if (issuer === undefined || isIssuedBy(each, issuer)) continue
    const isElsewhere = chain.some((other) => other !== each && isIssuedBy(each, other))
    return isElsewhere
      ? problem('wrong_order', 'has its certificates in the wrong order: each one must come before that of its issuer')
      : problem('unrelated', `has a certificate (${subjectOf(issuer)}) that is not the issuer of the one before it`)
  }
  return null
}

/** True when `issuer` has signed a certificate. */
function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
  } catch {
    return false
  }
}

/** True when a certificate is signed by its own key. */
export const isSelfSigned = (certificate: X509Certificate): boolean => isIssuedBy(certificate, certificate)

/** Returns true when the key is that of the certificate. */
export function fits(certificate: X509Certificate, key: KeyObject): boolean {
  try {
    return certificate.checkPrivateKey(key)
  } catch {
    return false
  }
}

/** Returns what is kept of a chain. The root at its end is left out: clients have their own. */
export function factsOf(chain: Chain): CertificateFacts {
  const [leaf, ...issuers] = chain
  const sent = [leaf, ...issuers.filter((each) => !isSelfSigned(each))]
  return {
    chain: sent.map((each) => each.toString()).join(''),
    names: namesOf(leaf),
    issuer: issuerOf(leaf),
    serial: leaf.serialNumber,
    notBefore: leaf.validFromDate,
    expiresAt: leaf.validToDate,
  }
}

/** Returns the name of the issuer for people, such as `Let's Encrypt (R11)`. */
function issuerOf({ issuer }: X509Certificate): string {
  const [name, organisation] = [attribute(issuer, 'CN'), attribute(issuer, 'O')]
  if (name === undefined) return organisation ?? (plain(issuer) || 'unknown')
  return organisation === undefined || name.includes(organisation) ? name : `${organisation} (${name})`
}

/** Returns the name of the subject for people. */
export const subjectOf = ({ subject = '' }: X509Certificate): string =>
  attribute(subject, 'CN') ?? (plain(subject) || 'without a name')

/** Attributes are lines such as `CN=R11`. */
function attribute(text: string | undefined, name: string): string | undefined {
  const value = text?.split('\n').find((line) => line.startsWith(`${name}=`))
  const shown = value === undefined ? '' : plain(value.slice(name.length + 1))
  return shown === '' ? undefined : shown
}

/** Returns a name that others wrote for messages: cut, and without invisible characters. */
const plain = (text: string): string =>
  text
    .replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .trim()
    .slice(0, 100)
