import { createPrivateKey } from 'node:crypto'
import { type CertificateFacts, factsOf, fits, linkProblem, readChain } from '../pem/chain.ts'
import { covers } from '../pem/names.ts'
import { isProblem } from '../pem/problem.ts'
import { AttemptError } from './attempt-error.ts'

/** The longest wait for a certificate that begins later: it may be the clock that is wrong. */
const longestWaitMs = 60 * 60_000

/**
 * Checks what an authority has issued, before it replaces one that works: names, key, order of the chain, times. Throws
 * `AttemptError`.
 *
 * @param key in PEM
 */
export function checkIssued(
  chainText: string,
  asked: { readonly names: readonly string[]; readonly key: string },
  now: Date,
): CertificateFacts {
  const chain = readChain(chainText)
  if (isProblem(chain)) throw bad(`it ${chain.message}`)
  const [leaf] = chain
  const link = linkProblem(chain)
  if (link !== null) throw bad(`it ${link.message}`)
  if (!fits(leaf, createPrivateKey(asked.key))) throw bad('it is for another key')
  const facts = factsOf(chain)
  const missing = asked.names.filter((name) => !covers(facts.names, name))
  if (missing.length > 0) throw bad(`it is not for ${missing.join(', ')}`)
  if (facts.expiresAt <= now)
    throw bad(`it has expired at ${facts.expiresAt.toISOString()}, by the clock of this server`)
  if (facts.notBefore > now) throw notYetValid(facts.notBefore, now)
  return facts
}

const bad = (reason: string): AttemptError =>
  new AttemptError(
    'bad_certificate',
    `The certificate authority has issued a certificate that cannot be used: ${reason}.`,
  )

function notYetValid(begins: Date, now: Date): AttemptError {
  const message =
    `The new certificate begins at ${begins.toISOString()}, and the clock of this server says ${now.toISOString()}. ` +
    'Check the clock. The certificate is put in place when it begins.'
  const resumeAt = new Date(Math.min(begins.getTime(), now.getTime() + longestWaitMs))
  return new AttemptError('not_yet_valid', message, { keepsOrder: true, resumeAt })
}
