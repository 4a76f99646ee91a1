import { join } from 'node:path'
import { expect, it } from 'vitest'
import { fairlead } from '../../harness/process.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

// Only root runs PostgreSQL as another user.
it.runIf(process.getuid?.() === 0)('a command with other uids than the server works on the same database', async () => {
  await using directory = await temporaryDirectory()
  const FAIRLEAD_DATA_DIR = join(directory.path, 'data')
  const list = (environment: Record<string, string>) =>
    fairlead(['keys', 'list'], { FAIRLEAD_DATA_DIR, ...environment })
  expect(await list({ FAIRLEAD_UIDS: '47000-47999' })).toMatchObject({ code: 0 })
  // PostgreSQL goes on as the owner of its cluster.
  expect(await list({})).toMatchObject({ code: 0, stderr: '' })
})
