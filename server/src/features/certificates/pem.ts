import { createPrivateKey, generateKeyPair, type KeyObject, X509Certificate } from 'node:crypto'
import { promisify } from 'node:util'

export interface PemProblem {
  readonly field: 'certificate' | 'private_key'
  /** Stable. */
  readonly code: string
  /** Continues a sentence whose subject is the field. */
  readonly message: string
}

export const isProblem = (value: object): value is PemProblem => 'field' in value && 'code' in value

const chainProblem = (code: string, message: string): PemProblem => ({ field: 'certificate', code, message })

/** More than any authority sends. */
const longestChain = 10

export type Chain = readonly [X509Certificate, ...X509Certificate[]]

export interface CertificateFacts {
  /** PEM without any other text. */
  readonly chain: string
  readonly names: readonly string[]
  readonly issuer: string
  /** The serial number in hexadecimal digits. */
  readonly serial: string
  readonly notBefore: Date
  readonly expiresAt: Date
}

/** Reads a chain from PEM, or returns why it cannot be read. */
export function readChain(text: string): Chain | PemProblem {
  const blocks = certificateBlocks(text)
  if (blocks.length === 0) return noCertificate(text)
  if (blocks.length > longestChain) {
    return chainProblem('long_chain', `has ${blocks.length} certificates; a chain has at most ${longestChain}`)
  }
  if (blocksIn(text).some(isPrivateKey)) {
    return chainProblem('key_in_chain', 'has a private key, too; give the key only as private_key')
  }
  const certificates = blocks.map(parse)
  const [first, ...others] = certificates
  if (first === undefined || certificates.includes(undefined)) {
    return chainProblem('malformed', 'has a certificate that cannot be read; copy the whole file again')
  }
  return [first, ...others.filter((each) => each !== undefined)]
}

function noCertificate(text: string): PemProblem {
  const labels = blocksIn(text).map(({ label }) => label)
  if (labels.some((label) => label.endsWith('CERTIFICATE REQUEST'))) {
    return chainProblem(
      'request',
      'is a request for a certificate; give the certificate that the authority has made of it',
    )
  }
  if (labels.some((label) => label.endsWith('PRIVATE KEY'))) {
    return chainProblem('key_as_certificate', 'is a private key; give the certificate')
  }
  return chainProblem(
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

/** Returns why a chain is broken; null when each certificate is issued by the next one. */
export function linkProblem(chain: Chain): PemProblem | null {
  for (const [index, each] of chain.entries()) {
    const issuer = chain[index + 1]
    if (issuer === undefined || isIssuedBy(each, issuer)) continue
    const isElsewhere = chain.some((other) => other !== each && isIssuedBy(each, other))
    return isElsewhere
      ? chainProblem(
          'wrong_order',
          'has its certificates in the wrong order: each certificate must come before the certificate of its issuer',
        )
      : chainProblem(
          'unrelated',
          `has a certificate (${subjectOf(issuer)}) that is not the issuer of the certificate before it`,
        )
  }
  return null
}

function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
  } catch {
    return false
  }
}

export const isSelfSigned = (certificate: X509Certificate): boolean => isIssuedBy(certificate, certificate)

export function fits(certificate: X509Certificate, key: KeyObject): boolean {
  try {
    return certificate.checkPrivateKey(key)
  } catch {
    return false
  }
}

/** Returns the stored facts of a chain. Leaves out a root at the end, because clients have their own roots. */
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

/** Returns the readable name of the issuer, such as `Let's Encrypt (R11)`. */
function issuerOf({ issuer }: X509Certificate): string {
  const [name, organisation] = [attribute(issuer, 'CN'), attribute(issuer, 'O')]
  if (name === undefined) return organisation ?? (plain(issuer) || 'unknown')
  return organisation === undefined || name.includes(organisation) ? name : `${organisation} (${name})`
}

export const subjectOf = ({ subject = '' }: X509Certificate): string =>
  attribute(subject, 'CN') ?? (plain(subject) || 'without a name')

/** Attributes are lines such as `CN=R11`. */
function attribute(text: string | undefined, name: string): string | undefined {
  const value = text?.split('\n').find((line) => line.startsWith(`${name}=`))
  const shown = value === undefined ? '' : plain(value.slice(name.length + 1))
  return shown === '' ? undefined : shown
}

/** Shortens an external name for messages, and removes invisible characters. */
const plain = (text: string): string =>
  text
    .replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .trim()
    .slice(0, 100)

const keyProblem = (code: string, message: string): PemProblem => ({ field: 'private_key', code, message })

const weakestRsaBits = 2048
/** The edge, which all accounts share, uses the key in each handshake. Longer keys cost more than they give. */
export const longestOwnRsaBits = 4096
/** Only clients compute with an issuer's key. */
export const longestIssuerRsaBits = 8192
/** The curves that browsers support. */
const curves = ['prime256v1', 'secp384r1']

/** Creates a private key on P-256 as PEM. The curve is small, and every browser and authority supports it. */
export async function newKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' })
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
}

/** Reads a private key from PEM, or returns why it cannot be used. */
export function readKey(text: string): KeyObject | PemProblem {
  const blocks = blocksIn(text)
  const keys = blocks.filter(isPrivateKey)
  const [key, ...more] = keys
  if (key === undefined) return noKey(blocks.map(({ label }) => label))
  if (more.length > 0)
    return keyProblem('several_keys', 'has several private keys; give only the private key of the certificate')
  if (key.isEncrypted) {
    const hint = 'decrypt it first, such as by: openssl pkey -in key.pem -out plain.pem'
    return keyProblem('encrypted_key', `is encrypted with a password, which a server cannot ask for; ${hint}`)
  }
  try {
    return createPrivateKey(key.text)
  } catch {
    return keyProblem('malformed_key', 'has a private key that cannot be read; copy the whole file again')
  }
}

function noKey(labels: readonly string[]): PemProblem {
  if (labels.some((label) => label.endsWith('PUBLIC KEY')))
    return keyProblem('public_key', 'is a public key; give the private one')
  if (labels.some((label) => label.endsWith('CERTIFICATE')))
    return keyProblem('certificate_as_key', 'is a certificate; give the private key')
  return keyProblem('no_key', 'has no private key in PEM: a block that begins with -----BEGIN PRIVATE KEY-----')
}

/** Returns why a key, public or private, is too weak, too long or not supported by browsers; null when it is usable. */
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

const label = '[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?'
const dnsName = new RegExp(`^(\\*\\.)?(${label}\\.)*${label}$`)

/**
 * Returns the DNS names of a certificate, in lower case, from its extension `subjectAltName` only (RFC 6125). IP
 * addresses and invalid host names are left out.
 */
export function namesOf({ subjectAltName = '' }: X509Certificate): string[] {
  const names = subjectAltName
    .split(', ')
    .filter((entry) => entry.startsWith('DNS:'))
    .map((entry) => entry.slice('DNS:'.length).toLowerCase())
  return [...new Set(names.filter((name) => name.length <= 253 && dnsName.test(name)))]
}

/**
 * True when a certificate for `names` is valid for `name`. A wildcard covers exactly one label (RFC 6125, section
 * 6.4.3).
 */
export function covers(names: readonly string[], name: string): boolean {
  return names.includes(name) || (!name.startsWith('*.') && names.includes(wildcardAbove(name)))
}

/** Returns the wildcard that covers a name: `*.example.com` for `www.example.com`. */
export const wildcardAbove = (name: string): string => `*${name.slice(name.indexOf('.'))}`

/** A block of PEM (RFC 7468). */
export interface PemBlock {
  /** The label of the block, such as `CERTIFICATE`. */
  readonly label: string
  readonly text: string
  readonly isEncrypted: boolean
}

/** Returns the blocks of a text in order, without other text and unfinished blocks. */
function blocksIn(text: string): PemBlock[] {
  const found: PemBlock[] = []
  let open: { readonly label: string; readonly lines: string[] } | undefined
  for (const line of text.split(/\r?\n|\r/).map((each) => each.trim())) {
    const begun = /^-----BEGIN ([A-Z0-9 ]{1,40})-----$/.exec(line)?.[1]
    if (begun !== undefined) open = { label: begun, lines: [] }
    open?.lines.push(line)
    if (open === undefined || line !== `-----END ${open.label}-----`) continue
    const { label, lines } = open
    const isEncrypted = label === 'ENCRYPTED PRIVATE KEY' || lines.some((each) => /^Proc-Type:.*ENCRYPTED/i.test(each))
    found.push({ label, text: `${lines.join('\n')}\n`, isEncrypted })
    open = undefined
  }
  return found
}

export const certificateBlocks = (text: string): string[] =>
  blocksIn(text)
    .filter(({ label }) => ['CERTIFICATE', 'X509 CERTIFICATE', 'TRUSTED CERTIFICATE'].includes(label))
    .map((block) => block.text)

const isPrivateKey = ({ label }: PemBlock): boolean => label.endsWith('PRIVATE KEY')
