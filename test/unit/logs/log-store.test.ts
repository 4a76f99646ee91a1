import { appendFile, mkdir, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, it, vi } from 'vitest'
import { createLogStore, type LogName } from '../../../server/src/logs/log-store.ts'
import { createMasker } from '../../../server/src/logs/masking.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

afterEach(() => void vi.useRealTimers())

const log: LogName = { appId: 'app_1', deploymentId: 'dep_1', stream: 'runtime' }
const masker = createMasker(['a secret value'])

it('keeps a log where later servers look for it, open for the owner alone', async () => {
  await using directory = await temporaryDirectory()
  const store = createLogStore({ directory: directory.path })
  const output = await store.open(log)
  await output.write('one\nwith a secret value\nand no end')
  await output.close()
  const path = join(directory.path, 'app_1', 'dep_1', 'runtime.log')
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect(await store.tail(log, { lines: 2, masker })).toEqual(['with ***', 'and no end'])
  const again = await store.open(log)
  await again.write('started again\n')
  await again.close()
  expect(await store.tail(log, { lines: 2, masker })).toEqual(['and no end', 'started again'])
  expect(await store.tail({ ...log, stream: 'build' }, { lines: 2, masker })).toEqual([])
})

it('finds and reads lines by their positions', async () => {
  await using directory = await temporaryDirectory()
  const store = createLogStore({ directory: directory.path })
  const output = await store.open(log)
  await output.write('one\ntwo\nthr')
  await output.close()
  expect(await store.find(log, { lines: 2 })).toEqual({ position: 4, lines: 2, end: 11 })
  const read = async (isFinal: boolean) =>
    (await store.read(log, { from: 4, masker, isFinal })).lines.map(({ text }) => text)
  expect([await read(false), await read(true)]).toEqual([['two'], ['two', 'thr']])
})

it('records the last lines when the writer has ended, and then stops recording', async () => {
  // No look but the last one comes between a write and its check.
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  await using directory = await temporaryDirectory()
  const store = createLogStore({ directory: directory.path })
  const output = await store.open(log)
  const path = join(directory.path, 'app_1', 'dep_1', 'runtime.log')
  const times = async () => (await stat(path.replace('.log', '.times'))).size / 16
  const ended = Promise.withResolvers<void>()
  await store.record(log, ended.promise)
  expect(await times()).toBe(1)
  await output.write('the last words\n')
  ended.reject(new Error('however it ends'))
  await expect.poll(() => vi.getTimerCount()).toBe(0)
  expect(await times()).toBe(2)
  await appendFile(path, 'unseen\n')
  expect(await times()).toBe(2)
  await store.flush(log)
  expect(await times()).toBe(3)
  await output.close()
})

it('continues to record a log that restarts before the end of its predecessor is known', async () => {
  await using directory = await temporaryDirectory()
  const store = createLogStore({ directory: directory.path })
  const output = await store.open(log)
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  await store.record(log, first.promise)
  await store.record(log, second.promise)
  first.resolve()
  // The last look of the first recording comes before this one.
  await first.promise
  await store.flush(log)
  const path = join(directory.path, 'app_1', 'dep_1', 'runtime.times')
  const before = (await stat(path)).size
  await output.write('still seen\n')
  await expect.poll(async () => (await stat(path)).size).toBe(before + 16)
  second.resolve()
  await output.close()
})

it('lists and removes logs by deployment and by app', async () => {
  await using directory = await temporaryDirectory()
  const store = createLogStore({ directory: join(directory.path, 'logs') })
  expect(await store.list()).toEqual([])
  for (const deploymentId of ['dep_1', 'dep_2']) await (await store.open({ ...log, deploymentId })).close()
  const [listed] = await store.list()
  expect({ ...listed, deploymentIds: listed?.deploymentIds.toSorted() }).toEqual({
    appId: 'app_1',
    deploymentIds: ['dep_1', 'dep_2'],
  })
  await store.remove(log)
  await store.remove(log)
  expect(await store.list()).toEqual([{ appId: 'app_1', deploymentIds: ['dep_2'] }])
  await store.removeApp('app_1')
  expect(await store.list()).toEqual([])
  await store.flush(log)
  expect(await readdir(join(directory.path, 'logs'))).toEqual([])
})

it('opens only plain files', async () => {
  await using directory = await temporaryDirectory()
  const store = createLogStore({ directory: directory.path })
  await mkdir(join(directory.path, 'app_1', 'dep_1', 'runtime.log'), { recursive: true })
  await expect(store.open(log)).rejects.toThrow()
  await writeFile(join(directory.path, 'app_1', 'dep_1', 'build.log'), '')
  await (await store.open({ ...log, stream: 'build' })).close()
})
