import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, lstat, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createAppUsers } from '../../../server/src/runtimes/process/users.ts'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'

/** Far from other tests' uids. */
const from = 3_001_000

describe.skipIf(!isRoot)('uids of apps', () => {
  test('are reused when an app is completely removed, and as late as possible', async () => {
    await using given = await folder()
    const users = createAppUsers(given.path, { from, to: from + 3, reserved: [from, from + 3] })
    await given.app('a')
    expect(await users.of({ id: 'a', number: 1 })).toEqual({ uid: from + 1, gid: from + 1 })
    expect((await lstat(join(given.path, 'a/home'))).uid).toBe(from + 1)
    await given.app('b')
    await given.app('c')
    const [b, c] = [
      { id: 'b', number: 2 },
      { id: 'c', number: 3 },
    ]
    const both = await Promise.allSettled([users.of(b), users.of(c)])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    const refused = both[0].status === 'rejected' ? b : c
    // A release that the removal has not reached yet, and a process.
    await given.app('a/releases/r')
    await mkdir(join(given.path, 'a/releases/r/source'))
    await chown(join(given.path, 'a/releases/r/source'), from + 1, from + 1)
    await rm(join(given.path, 'a/home'), { recursive: true })
    await expect(users.of(refused)).rejects.toThrow('No unprivileged uid is left')
    const process = spawn('sleep', ['100'], { uid: from + 1, gid: from + 1, stdio: 'ignore' })
    await rm(join(given.path, 'a'), { recursive: true })
    await expect(users.of(refused)).rejects.toThrow('No unprivileged uid is left')
    process.kill()
    await once(process, 'exit')
    expect(await users.of(refused)).toMatchObject({ uid: from + 1 })
  })

  test('stay with their app when the range is widened, and follow when it is moved', async () => {
    await using given = await folder()
    const of = (first: number, last: number, id: string, number: number) =>
      createAppUsers(given.path, { from: first, to: last }).of({ id, number })
    await given.app('a')
    expect(await of(from, from + 10, 'a', 1)).toMatchObject({ uid: from + 1 })
    await writeFile(join(given.path, 'a/home/file'), '')
    await chown(join(given.path, 'a/home/file'), from + 1, from + 1)
    expect(await of(from - 100, from + 100, 'a', 1)).toMatchObject({ uid: from + 1 })
    expect(await of(from + 20, from + 30, 'a', 1)).toMatchObject({ uid: from + 21 })
    for (const file of ['a/home', 'a/home/file']) expect((await lstat(join(given.path, file))).uid).toBe(from + 21)
  })
})

async function folder() {
  const directory = await temporaryDirectory()
  return {
    path: directory.path,
    app: (name: string) => mkdir(join(directory.path, name), { recursive: true }),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  }
}
