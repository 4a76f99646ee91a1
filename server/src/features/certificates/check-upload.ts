import type { KeyObject, X509Certificate } from 'node:crypto'
import {
  type CertificateFacts,
  type Chain,
  factsOf,
  fits,
  isProblem,
  isSelfSigned,
  linkProblem,
  longestIssuerRsaBits,
  longestOwnRsaBits,
  namesOf,
  type PemProblem,
  readChain,
  readKey,
  strengthProblem,
  subjectOf,
} from './pem.ts'

/** A certificate that browsers accept. `key` is PEM. */
export interface CheckedUpload extends CertificateFacts {
  readonly key: string
}

const problem = (code: string, message: string): PemProblem => ({ field: 'certificate', code, message })

const serverAuthentication = '1.3.6.1.5.5.7.3.1'
/** More names than any authority puts into one certificate. */
const mostNames = 200
/** The longest chain in characters of PEM. Each handshake sends the chain. */
const longestChain = 32_000

/** Checks a chain and its key as PEM. Returns the first reason why browsers would not accept them. */
export function checkUpload(
  given: { readonly certificate: string; readonly privateKey: string },
  now: Date,
): CheckedUpload | PemProblem {
  const chain = readChain(given.certificate)
  if (isProblem(chain)) return chain
  const key = readKey(given.privateKey)
  if (isProblem(key)) return key
  const found =
    matchProblem(chain, key) ??
    linkProblem(chain) ??
    completenessProblem(chain) ??
    strengthProblems(chain, key) ??
    purposeProblem(chain[0]) ??
    timeProblem(chain, now)
  if (found !== null) return found
  const facts = factsOf(chain)
  return sizeProblem(facts) ?? { ...facts, key: key.export({ type: 'pkcs8', format: 'pem' }).toString() }
}

function matchProblem(chain: Chain, key: KeyObject): PemProblem | null {
  if (fits(chain[0], key)) return null
  if (chain.some((each) => fits(each, key))) {
    return problem(
      'wrong_order',
      'has its certificates in the wrong order: the certificate of the private key must come first',
    )
  }
  return { field: 'private_key', code: 'key_mismatch', message: 'is not the private key of the certificate' }
}

/**
 * Rejects an incomplete chain. Public authorities state where the issuer's certificate is, but clients do not fetch it.
 */
function completenessProblem(chain: Chain): PemProblem | null {
  const last = chain.at(-1) ?? chain[0]
  if (chain.length > 1 || isSelfSigned(last) || !/CA Issuers - URI:/.test(last.infoAccess ?? '')) return null
  return problem(
    'incomplete_chain',
    'has no certificate of its issuer; give the whole chain (often called fullchain.pem)',
  )
}

function strengthProblems(chain: Chain, key: KeyObject): PemProblem | null {
  const weakKey = strengthProblem(key, longestOwnRsaBits)
  if (weakKey !== null) return { field: 'private_key', code: 'weak_key', message: weakKey }
  for (const each of chain) {
    const weakIssuer = strengthProblem(each.publicKey, longestIssuerRsaBits)
    if (weakIssuer !== null) return problem('weak_issuer', `has an issuer (${subjectOf(each)}) whose key ${weakIssuer}`)
    // The signature of a root proves nothing, so its algorithm does not matter.
    if (/sha1|md5|md2/i.test(each.signatureAlgorithm ?? '') && !isSelfSigned(each)) {
      return problem(
        'weak_signature',
        `is signed by ${each.signatureAlgorithm}, which browsers refuse (${subjectOf(each)})`,
      )
    }
  }
  return null
}

function purposeProblem(leaf: X509Certificate): PemProblem | null {
  if (leaf.ca) return problem('authority', 'is the certificate of an authority; give the certificate of a server')
  if (leaf.keyUsage !== undefined && !leaf.keyUsage.includes(serverAuthentication)) {
    return problem('purpose', 'is not made for servers: its extended key usage lacks serverAuth')
  }
  const names = namesOf(leaf)
  if (names.length === 0) {
    return problem('no_names', 'has no DNS name in subjectAltName, which is all that browsers look at')
  }
  return names.length > mostNames ? problem('many_names', `has more than ${mostNames} names`) : null
}

function sizeProblem({ chain }: CertificateFacts): PemProblem | null {
  if (chain.length <= longestChain) return null
  return problem('large_chain', `has ${chain.length} characters without its root; a chain has at most ${longestChain}`)
}

function timeProblem(chain: Chain, now: Date): PemProblem | null {
  const day = (date: Date) => date.toISOString().slice(0, 10)
  for (const [index, each] of chain.entries()) {
    const which = index === 0 ? '' : `, as its issuer ${subjectOf(each)},`
    if (each.validToDate <= now) {
      return problem(index === 0 ? 'expired' : 'issuer_expired', `has expired${which} on ${day(each.validToDate)}`)
    }
    if (each.validFromDate > now) {
      const hint = 'upload it then, or check the clock of the server'
      return problem('not_yet_valid', `begins${which} on ${day(each.validFromDate)}; ${hint}`)
    }
  }
  return null
}
