import { afterAll, beforeAll, expect, it } from 'vitest'
import { appFolders, deployRow, hasAll } from '../../corpus/deploy-row.ts'
import { rows } from '../../corpus/table.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

/* The whole corpus takes long: `npm run corpus`. */

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

it('every application has a row, and every row has an application', async () => {
  expect(rows.map(({ name }) => name).sort()).toEqual((await appFolders()).sort())
})

const quick = await Promise.all(
  rows.filter(({ isQuick }) => isQuick).map(async (row) => ({ row, isHere: await hasAll(row.needs ?? []) })),
)
for (const { row, isHere } of quick) {
  const missing = isHere ? '' : ` (needs ${row.needs?.join(', ')})`
  it.skipIf(!isHere)(`${row.name} runs and shows its page${missing}`, async () => {
    expect(await deployRow(server.client, row)).toMatchObject({ status: 'running', isShown: true, problems: [] })
  })
}
