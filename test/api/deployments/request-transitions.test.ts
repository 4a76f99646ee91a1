import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { deploymentStatuses } from '../../../server/src/contract/deployments.ts'
import { createRequestTransitions } from '../../../server/src/features/deployments/rows.ts'
import type { DeploymentRow } from '../../../server/src/features/deployments/tables.ts'
import type { DatabaseHandle, Transaction } from '../../../server/src/platform/database.ts'
import { type DatabaseWithProject, databaseWithProject, type TestDatabase } from '../../harness/database.ts'
import { deploymentRow } from '../../harness/deployment-row.ts'

type Status = DeploymentRow['status']

/** A deployment in every state, each of another app, whose release is kept or deleted. */
const rows = deploymentStatuses.flatMap((status) =>
  [true, false].map((retained) => {
    const id = `dep_${status}_${retained}`
    return deploymentRow({ id, app_id: `app_${id}`, status, retained })
  }),
)

let given: DatabaseWithProject
let database: TestDatabase
let handle: DatabaseHandle
beforeAll(async () => {
  given = await databaseWithProject()
  database = given.database
  handle = given.handle
  for (const [at, { id }] of rows.entries()) {
    const app = [`app_${id}`, id, 20_000 + at]
    await database.query("insert into apps (id, project_id, name, port) values ($1, 'proj_1', $2, $3)", app)
  }
})
afterAll(() => given?.[Symbol.asyncDispose]())

beforeEach(async () => {
  await database.query('delete from deployments')
  await database.query(
    `insert into deployments
       (id, project_id, app_id, account_id, status, retained, generation, git_url, git_token, variables, variable_origins, triggered_by, runtime)
     select id, 'proj_1', app_id, 'acct_1', status, retained, 1, 'https://example.com/a.git', 'token', '', '{"given": [], "plain": []}', '{"kind": "key"}', 'process'
     from jsonb_to_recordset($1) as given (id text, app_id text, status text, retained boolean)`,
    [JSON.stringify(rows)],
  )
})

const transitions = createRequestTransitions({
  apps: {
    lock: async () => undefined,
    nextGeneration: async () => 2,
    delete: async () => undefined,
    deleteProject: async () => undefined,
  },
})
const by = { kind: 'key', name: 'ci', repository: null, run_url: null, actor: null, event: null } as const

/** Tries a change on each row, and returns the rows' previous states, with the new states. */
async function changed(
  change: (transaction: Transaction, row: DeploymentRow) => Promise<boolean>,
  retained: boolean,
): Promise<Partial<Record<Status, Status | 'deleted'>>> {
  const found: Partial<Record<Status, Status | 'deleted'>> = {}
  for (const row of rows) {
    if (row.retained !== retained) continue
    const { id, status } = row
    const ok = await handle.db.transaction().execute((transaction) => change(transaction, row))
    const [now] = await database.query<{ status: Status }>('select status from deployments where id = $1', [id])
    if (ok) found[status] = now?.status ?? 'deleted'
    else expect(now).toEqual({ status })
  }
  return found
}

describe.each([true, false])('a deployment whose release is kept: %s', (retained) => {
  it('is canceled only from building', async () => {
    expect(await changed(transitions.cancel, retained)).toEqual({ building: 'canceled' })
    const ended = await database.query('select id from deployments where finished_at is not null and git_token is null')
    expect(ended).toEqual([{ id: `dep_building_${retained}` }])
  })

  it('is stopped only from running', async () => {
    expect(await changed((on, { id }) => transitions.stop(on, id), retained)).toEqual({ running: 'stopped' })
  })

  it('is deleted only when it has ended', async () => {
    const expected = { failed: 'deleted', canceled: 'deleted', superseded: 'deleted', stopped: 'deleted' }
    expect(await changed((on, row) => transitions.delete(on, row), retained)).toEqual(expected)
  })

  it('is rolled back to only when it is kept and has ended', async () => {
    const expected = { failed: 'building', canceled: 'building', superseded: 'building', stopped: 'building' }
    const rollBack = async (on: Transaction, row: DeploymentRow) => (await transitions.rollBack(on, row, by)).ok
    expect(await changed(rollBack, retained)).toEqual(retained ? expected : {})
  })

  it('is restarted only when it is kept and not building', async () => {
    const resting = { failed: 'building', canceled: 'building', superseded: 'building', stopped: 'building' }
    expect(await changed((on, row) => transitions.restart(on, row, by), retained)).toEqual(
      retained ? { ...resting, running: 'building' } : {},
    )
  })
})

it('a rotation that is counted while a deployment drops its variables stays counted', async () => {
  const id = 'dep_running_true'
  const origins = { plain: ['A'], given: ['A'], linked: { DATABASE_URL: 'db_1' }, rotations: 1 }
  await database.query('update deployments set variable_origins = $2 where id = $1', [id, JSON.stringify(origins)])
  const giveUp = () => handle.db.transaction().execute((trx) => transitions.giveUpVariables(trx, { id }))
  const now = () => database.query('select variable_origins from deployments where id = $1', [id])
  await giveUp()
  expect(await now()).toEqual([{ variable_origins: { ...origins, given: [] } }])
})
