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
/** The time until the next look after one that could not be done, or after which a name has failed for the first time. */
const retryMs = 500

/** Begins to sync. Resolves when the gateway has what the rows said at the beginning, or could not be told. */
export async function startCertificateSync(dependencies: CertificateSyncDependencies): Promise<CertificateSync> {
  const { before, logger } = dependencies
  /** The certificates that the gateway has; null for one of which only the name is known. */
  const told = new Map<string, Shown | null>(before.map((name) => [name, null]))
  const waitAfter = createReport(logger)
  const work = () => tell(dependencies, told).then(waitAfter)
  const onError = (error: unknown): number => {
    logger.error({ err: error }, 'the gateway could not be told the certificates')
    return retryMs
  }
  const repeated = startRepeated(work, onError, await work().catch(onError))
  return { ...repeated, isShown: (id) => [...told.values()].some((each) => each?.id === id) }
}

/** The errors of names, by the names. */
type Failures = ReadonlyMap<string, unknown>

/**
 * Returns a function that logs the names which have failed since they were told last, once each, and returns the time until the next
 * look: the same failures make it longer and longer, because a damaged certificate stays damaged.
 */
function createReport(logger: Pick<Logger, 'error'>): (failures: Failures) => number {
  let known: Failures = new Map()
  let nextMs = retryMs
  return (failures) => {
    const added = [...failures.keys()].filter((name) => !known.has(name))
    for (const name of added)
      logger.error({ err: failures.get(name), name }, 'the certificate of a name could not be shown')
    nextMs = added.length > 0 ? retryMs : Math.min(nextMs * 2, lookMs)
    known = failures
    return failures.size === 0 ? lookMs : nextMs
  }
}

/** Tells the gateway what has changed since it was told last. A name that fails keeps no other from its certificate. */
async function tell(
  { look, read, certify }: CertificateSyncDependencies,
  told: Map<string, Shown | null>,
): Promise<Failures> {
  const current = await look()
  const failures = new Map<string, unknown>()
  const attempt = (name: string, work: () => Promise<void>): Promise<void> =>
    work().catch((error: unknown) => void failures.set(name, error))

  // A certificate that is not to be seen any more goes before all others.
  for (const name of [...told.keys()].filter((each) => !current.has(each))) {
    await attempt(name, async () => {
      await certify(name, null)
      told.delete(name)
    })
  }
  for (const [name, shown] of current) {
    const before = told.get(name)
    if (before?.id === shown.id && before.serial === shown.serial) continue
    await attempt(name, async () => {
      const pem = await read(shown.id)
      // Removed since; the next look sees that.
      if (pem === undefined) return
      told.set(name, null)
      await certify(name, pem)
      told.set(name, shown)
    })
  }
  return failures
}
