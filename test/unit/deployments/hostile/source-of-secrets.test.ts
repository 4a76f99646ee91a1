import { describe, expect, it } from 'vitest'
import { sourceOfSecrets } from '../../../../server/src/features/deployments/app-variables.ts'
import type { DeploymentRow } from '../../../../server/src/features/deployments/tables.ts'
import type { Database } from '../../../../server/src/platform/database.ts'

type Kind = 'user' | 'key'
const by = (kind: Kind) => ({ kind, name: null, repository: null, run_url: null, actor: null, event: null })

/** Returns the source of a secret that is set during a rollback, while another release serves. */
function sourceDuring(rollback: { readonly createdBy: Kind; readonly rolledBackBy: Kind }): Promise<string | null> {
  const building = {
    status: 'building',
    git_url: 'https://example.com/before',
    source_id: null,
    image: null,
    generation: 3,
    triggered_by: by(rollback.createdBy),
    last_request: { generation: 3, kind: 'rollback', at: '2026-07-01T12:00:00Z', by: by(rollback.rolledBackBy) },
  } as unknown as DeploymentRow
  const serving = { ...building, status: 'running', git_url: 'https://example.com/now', generation: 2 } as DeploymentRow
  const releases = { latest: async () => [building], serving: async () => [serving] }
  return sourceOfSecrets(releases, {} as Database, 'app_1')
}

describe('a secret that is set during a rollback', () => {
  it('belongs to the serving release when a key rolls back, for every creator of the target release', async () => {
    expect(await sourceDuring({ createdBy: 'user', rolledBackBy: 'key' })).toBe('https://example.com/now')
    expect(await sourceDuring({ createdBy: 'key', rolledBackBy: 'key' })).toBe('https://example.com/now')
  })

  it('belongs to the target release when a signed-in user rolls back', async () => {
    expect(await sourceDuring({ createdBy: 'key', rolledBackBy: 'user' })).toBe('https://example.com/before')
  })
})
