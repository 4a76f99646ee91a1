import { join } from 'node:path'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { loadConfig } from '../../../server/src/platform/config.ts'
import { openState } from '../../../server/src/platform/state.ts'
import { fairlead, serverProcess } from '../../harness/process.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

it('the audit log removes entries older than its retention', async () => {
  await using directory = await temporaryDirectory()
  const data = join(directory.path, 'data')
  const environment = { FAIRLEAD_DATA_DIR: data }
  await fairlead(['keys', 'create', '--new', '--name', 'old'], environment)
  await fairlead(['keys', 'create', '--new', '--name', 'new'], environment)
  const state = await openState({
    config: loadConfig({ dataDir: data }),
    logger: pino({ level: 'silent' }),
    supervise: false,
    signal: AbortSignal.timeout(60_000),
  })
  const left = async () => (await state.pool.query('select 1 from audit_entries')).rowCount
  await state.pool.query(
    "update audit_entries set at = now() - interval '31 days' where id = (select min(id) from audit_entries)",
  )
  expect(await left()).toBe(2)
  await using _server = await serverProcess(data, { FAIRLEAD_AUDIT_RETENTION: '30' })
  await expect.poll(left).toBe(1)
  await state.close()
})
