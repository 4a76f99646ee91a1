import { sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { currentRelease, type ReleaseReads } from './reads.ts'
import type { AppVariable } from './release-variables.ts'
import { sourceOf } from './source-of.ts'
import { lastRequestOf } from './steps.ts'
import { tablesOf } from './tables.ts'

interface StoredVariable extends AppVariable {
  readonly updatedAt: Date
}

/** The variables of apps, encrypted. Changes are made under the app's lock. */
export interface AppVariables {
  of(on: Database | Transaction, appId: string): Promise<StoredVariable[]>
  set(transaction: Transaction, appId: string, variables: readonly AppVariable[]): Promise<void>
  remove(transaction: Transaction, appId: string, names: readonly string[]): Promise<void>
}

const contextOf = (appId: string, name: string): string => `${appId} variable ${name}`

export function createAppVariables(secrets: SecretBox): AppVariables {
  return {
    async of(on, appId) {
      const rows = await tablesOf(on)
        .selectFrom('app_variables')
        .selectAll()
        .where('app_id', '=', appId)
        .orderBy('name')
        .execute()
      return rows.map(({ name, kind, value, source, updated_at }) => ({
        name,
        kind,
        value: secrets.decrypt(value, contextOf(appId, name)),
        source,
        updatedAt: updated_at,
      }))
    },

    async set(transaction, appId, variables) {
      if (variables.length === 0) return
      const row = ({ name, kind, value, source }: AppVariable) => ({
        name,
        kind,
        source,
        value: secrets.encrypt(value, contextOf(appId, name)),
      })
      await tablesOf(transaction)
        .insertInto('app_variables')
        .values(variables.map((variable) => ({ app_id: appId, ...row(variable) })))
        .onConflict((conflict) =>
          conflict.columns(['app_id', 'name']).doUpdateSet(({ ref }) => ({
            kind: ref('excluded.kind'),
            value: ref('excluded.value'),
            source: ref('excluded.source'),
            updated_at: sql<Date>`now()`,
          })),
        )
        .execute()
    },

    async remove(transaction, appId, names) {
      await tablesOf(transaction)
        .deleteFrom('app_variables')
        .where('app_id', '=', appId)
        .where('name', '=', sql<string>`any(${[...names]}::text[])`)
        .execute()
    },
  }
}

/**
 * Returns the source that an app's new secrets belong to: the source of the build that a signed-in user started, else
 * the source of the serving release, else of the latest release. A build that a key started does not count while
 * another release serves: a thief can cancel that build. Null for an app without releases.
 */
export async function sourceOfSecrets(
  releases: Pick<ReleaseReads, 'serving' | 'latest'>,
  on: Database | Transaction,
  appId: string,
): Promise<string | null> {
  const current = await currentRelease(releases, on, appId)
  if (current === undefined) return null
  const [serving] = current.status === 'building' ? await releases.serving(on, [appId]) : []
  // A key may have rolled back to a release that a user had created.
  const by = lastRequestOf(current)?.by ?? current.triggered_by
  return sourceOf(by.kind === 'user' ? current : (serving ?? current))
}

/**
 * Gives an app's secrets to a source: all of them, or only secrets without a source. The caller holds the lock of the
 * app.
 */
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
