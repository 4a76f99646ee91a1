import type { Logger } from '../../platform/logger.ts'
import { type Repeated, startRepeated } from '../../platform/periodic.ts'

/** A certificate as the gateway is to show it. */
export interface Shown {
  readonly id: string
  /** Another one after each renewal. */
  readonly serial: string
}

export interface CertificateSyncDependencies {
  /** Returns the certificate of each name. */
  readonly look: () => Promise<ReadonlyMap<string, Shown>>
  /** Returns the private key and the chain of a certificate, as PEM; `undefined` for one that is gone. */
  readonly read: (id: string) => Promise<string | undefined>
  /** Lets the gateway show a certificate for a name; null takes it away. */
  readonly certify: (name: string, pem: string | null) => Promise<void>
  /** The names of which the gateway has a certificate from before. */
  readonly before: readonly string[]
  readonly logger: Pick<Logger, 'error'>
}

/** Lets the gateway show the certificates that the rows say. */
export interface CertificateSync extends Repeated {
  /** True while the gateway shows a certificate for any name. */
  isShown(id: string): boolean
}

/** The longest time between two looks: certificates also begin and end without a change of their rows. */
const lookMs = 30_000
const retryMs = 500

/** Begins to sync. Resolves when the gateway has what the rows said at the beginning, or could not be told. */
export async function startCertificateSync(dependencies: CertificateSyncDependencies): Promise<CertificateSync> {
  const { before, logger } = dependencies
  /** The certificates that the gateway has; null for one of which only the name is known. */
  const told = new Map<string, Shown | null>(before.map((name) => [name, null]))
  const work = () => tell(dependencies, told).then(() => lookMs)
  const onError = (error: unknown): number => {
    logger.error({ err: error }, 'the gateway could not be told the certificates')
    return retryMs
  }
  const repeated = startRepeated(work, onError, await work().catch(onError))
  return { ...repeated, isShown: (id) => [...told.values()].some((each) => each?.id === id) }
}

/** Tells the gateway what has changed since it was told last. */
async function tell(
  { look, read, certify }: CertificateSyncDependencies,
  told: Map<string, Shown | null>,
): Promise<void> {
  const current = await look()
  // A certificate that is not to be seen any more goes before all others.
  for (const name of [...told.keys()].filter((each) => !current.has(each))) {
    await certify(name, null)
    told.delete(name)
  }
  for (const [name, shown] of current) {
    const before = told.get(name)
    if (before?.id === shown.id && before.serial === shown.serial) continue
    const pem = await read(shown.id)
    // Removed since; the next look sees that.
    if (pem === undefined) continue
    told.set(name, null)
    await certify(name, pem)
    told.set(name, shown)
  }
}
