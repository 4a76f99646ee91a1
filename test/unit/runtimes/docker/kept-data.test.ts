import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { homeOf } from '../../../../server/src/runtimes/docker/dockerfiles/daemon-record.ts'
import { startOnKept } from '../../../../server/src/runtimes/docker/dockerfiles/image-builds.ts'
import { temporaryDirectory } from '../../../harness/temporary.ts'

/** The data of earlier builds, with a mark when the last build did not finish. */
async function kept({ isUnsettled }: { isUnsettled: boolean }) {
  const directory = await temporaryDirectory()
  const home = homeOf(directory.path, 'app_1')
  await mkdir(home.data, { recursive: true })
  await writeFile(join(home.data, 'layers'), 'many')
  if (isUnsettled) await writeFile(home.inUse, '')
  let ended = 0
  return {
    ...directory,
    home,
    ended: () => ended,
    data: () => readFile(join(home.data, 'layers'), 'utf8').catch(() => null),
    names: async () => (await readdir(home.folder)).sort(),
    /** Starts daemons; `starts` decides about each start, depending on the data of earlier builds. */
    start: (starts: (hasData: boolean) => boolean, isSound = true) =>
      startOnKept(
        home,
        async () => {
          await mkdir(home.data, { recursive: true })
          if (!starts((await readdir(home.data)).length > 0)) throw new Error('no memory is left')
          return { end: async () => ++ended }
        },
        async () => isSound,
        new AbortController().signal,
      ),
  }
}

it('the builds’ data stay when the daemon also fails without them', async () => {
  await using given = await kept({ isUnsettled: true })
  await expect(given.start(() => false)).rejects.toThrow('no memory is left')
  expect(await given.data()).toBe('many')
  expect(await given.names()).toEqual(['data', 'in-use'])
})

it('the builds’ data are removed when the daemon starts only without them', async () => {
  await using given = await kept({ isUnsettled: true })
  await given.start((hasData) => !hasData)
  expect(await given.data()).toBeNull()
  expect(await given.names()).toEqual(['data', 'in-use'])
})

it('the builds’ data are removed when the daemon cannot read them, and starts without them', async () => {
  await using given = await kept({ isUnsettled: true })
  await given.start(() => true, false)
  expect([await given.data(), given.ended()]).toEqual([null, 1])
})

it('the builds’ data stay when their build finished, whatever the start says', async () => {
  await using given = await kept({ isUnsettled: false })
  await expect(given.start(() => false)).rejects.toThrow('no memory is left')
  expect(await given.data()).toBe('many')
})
