import { readFile } from 'node:fs/promises'
import type { Database } from '../../../platform/database.ts'
import { tablesOf } from '../tables.ts'

export interface AuthorityFacts {
  /** The names that allow the authority in CAA records (RFC 8555, section 7.1.1). */
  readonly identities: readonly string[]
  /** The URL of this server's account (RFC 8657); null before there is one. */
  readonly accountUri: string | null
}

const keptMs = 24 * 60 * 60_000
const timeoutMs = 10_000
const mostIdentities = 20

/**
 * Returns a function that resolves to the facts about the configured authority, or to null when it does not answer. The
 * facts are cached for a day.
 */
export function createAuthorityFacts(acme: {
  readonly url: string
  readonly ca: string | null
}): (on: Database, signal: AbortSignal) => Promise<AuthorityFacts | null> {
  let kept: { readonly identities: readonly string[]; readonly until: number } | undefined
  return async (on, signal) => {
    if (kept === undefined || kept.until < performance.now()) {
      const identities = await readIdentities(acme, signal).catch(() => null)
      signal.throwIfAborted()
      if (identities === null) return null
      kept = { identities, until: performance.now() + keptMs }
    }
    const account = await tablesOf(on)
      .selectFrom('acme_accounts')
      .select('url')
      .where('directory', '=', acme.url)
      .executeTakeFirst()
    return { identities: kept.identities, accountUri: account?.url ?? null }
  }
}

async function readIdentities(
  { url, ca }: { readonly url: string; readonly ca: string | null },
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { Agent, request } = await import('undici')
  const dispatcher = new Agent({
    connect: ca === null ? {} : { ca: await readFile(ca, 'utf8') },
    maxResponseSize: 100_000,
  })
  try {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    const { statusCode, body } = await request(url, { dispatcher, signal: limited })
    const directory = (await body.json()) as { readonly meta?: { readonly caaIdentities?: unknown } }
    if (statusCode !== 200) throw new Error(`the directory of the authority answered with ${statusCode}`)
    const identities = directory.meta?.caaIdentities
    const names = Array.isArray(identities) ? identities : []
    return names.filter((each) => typeof each === 'string').slice(0, mostIdentities)
  } finally {
    await dispatcher.destroy()
  }
}
