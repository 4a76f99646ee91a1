import { type AcmeAccountDependencies, createAcmeAccount } from './account.ts'
import { AttemptError } from './attempt-error.ts'
import type { ChallengeKinds } from './challenges.ts'
import { explain } from './explain.ts'
import { type OrderRequest, runOrder } from './order.ts'
import { AcmeError } from './problem.ts'
import { createTransport, loadLibrary } from './transport.ts'

export interface AcmeOptions extends Omit<AcmeAccountDependencies, 'library'> {
  /** The file with the certificates that the authority's own is checked by; null for those of the public authorities. */
  readonly ca: string | null
  readonly kinds: ChallengeKinds
}

/** A certificate authority that speaks ACME (RFC 8555). Everything rejects with `AttemptError`, or the reason of the signal. */
export interface Acme {
  /** Obtains a certificate, and returns its chain in PEM. */
  order(request: Omit<OrderRequest, 'kinds'>): Promise<string>
  /** Revokes a certificate, as one whose key others may have. Resolves for one that is revoked already. */
  revoke(certificate: string, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** The time for an order with all its waits. The next attempt resumes one that takes longer. */
const orderTimeoutMs = 8 * 60_000
const revocationTimeoutMs = 60_000
/** RFC 5280, section 5.3.1. */
const keyCompromise = 1

export async function createAcme({ ca, kinds, ...options }: AcmeOptions): Promise<Acme> {
  const library = await loadLibrary()
  const transport = await createTransport(ca)
  const account = createAcmeAccount({ ...options, library })

  const within = async <T>(
    timeoutMs: number,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    try {
      return await transport.use(limited, () => work(limited))
    } catch (error) {
      signal.throwIfAborted()
      throw limited.aborted ? tookTooLong(timeoutMs) : explain(error)
    }
  }

  return {
    order: (request) =>
      within(orderTimeoutMs, request.signal, (signal) =>
        account.use((client) => runOrder(library, client, { ...request, kinds, signal })),
      ),
    revoke: (certificate, signal) =>
      within(revocationTimeoutMs, signal, () =>
        account.use(async (client) => {
          await client.revokeCertificate(certificate, { reason: keyCompromise }).catch(unlessRevoked)
        }),
      ),
    close: () => transport.close(),
  }
}

function unlessRevoked(error: unknown): void {
  if (error instanceof AcmeError && error.problem?.type === 'alreadyRevoked') return
  throw error
}

const tookTooLong = (timeoutMs: number): AttemptError =>
  new AttemptError(
    'timeout',
    `The attempt took more than ${Math.round(timeoutMs / 60_000)} minutes. The server tries again automatically.`,
    {
      keepsOrder: true,
    },
  )
