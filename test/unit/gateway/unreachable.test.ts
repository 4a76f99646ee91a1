import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, it, vi } from 'vitest'
import { isUnanswered } from '../../../server/src/gateway/client.ts'
import { connectGateway } from '../../../server/src/gateway/gateway.ts'
import { defaults } from '../../harness/gateway/program.ts'
import { silent } from '../../harness/gateway/silent.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

afterEach(() => void vi.useRealTimers())

it('a call fails after a minute in which no gateway could start, and the problem is reported', async () => {
  await using directory = await temporaryDirectory()
  const dataDirectory = join(directory.path, 'data')
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  const gateway = await connectGateway({
    dataDirectory,
    options: defaults,
    runAs: null,
    epoch: 1,
    retireMs: 0,
    log: silent,
  })
  // A file cannot have subfolders.
  await writeFile(dataDirectory, '')
  const failed = gateway.open('app', { port: 1 }).catch((error: unknown) => error)
  await vi.advanceTimersByTimeAsync(59_000)
  expect(gateway.problem()).toBe('the gateway does not run')
  await vi.advanceTimersByTimeAsync(3_000)
  expect(await failed).toMatchObject({ message: expect.stringContaining('60 s') })
  expect(isUnanswered(await failed)).toBe(true)
  gateway.leave()
  expect(gateway.problem()).toBeUndefined()
})
