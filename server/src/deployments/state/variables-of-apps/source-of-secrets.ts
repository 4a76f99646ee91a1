import type { Database, Transaction } from '../../../platform/database.ts'
import { currentRelease } from '../current-release.ts'
import type { ReleaseReads } from '../reads.ts'
import { sourceOf } from '../source/source-of.ts'
import { lastRequestOf } from '../steps.ts'
import { tablesOf } from '../tables.ts'

/**
 * Returns the source that a secret belongs to which an app is given now: that of what a signed-in user has set building, of
 * what serves, or of the latest release. What a key has set building counts for nothing as long as another release serves: a
 * thief can cancel it. Null for an app without releases.
 */
export async function sourceOfSecrets(
  releases: Pick<ReleaseReads, 'serving' | 'latest'>,
  on: Database | Transaction,
  appId: string,
): Promise<string | null> {
  const current = await currentRelease(releases, on, appId)
  if (current === undefined) return null
  const [serving] = current.status === 'building' ? await releases.serving(on, [appId]) : []
  // A key may have rolled back to what a user had created.
  const by = lastRequestOf(current)?.by ?? current.triggered_by
  return sourceOf(by.kind === 'user' ? current : (serving ?? current))
}

/** Gives the secrets of an app to a source: all of them, or those that have none. The lock of the app is the caller's. */
export async function giveSecretsTo(
  transaction: Transaction,
  appId: string,
  { source, all }: { readonly source: string; readonly all: boolean },
): Promise<void> {
  for (const table of ['app_variables', 'database_links'] as const) {
    await tablesOf(transaction)
      .updateTable(table)
      .set({ source })
      .where('app_id', '=', appId)
      .where(({ eb }) => (all ? eb('source', 'is distinct from', source) : eb('source', 'is', null)))
      .execute()
  }
}
