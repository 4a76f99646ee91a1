import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { reachableBinaries } from '../../../server/src/platform/postgres/binaries.ts'
import {
  assertReachable,
  copyOnce,
  isReachable,
  makePassableDirectory,
  mayAccess,
  reachableCopy,
} from '../../../server/src/platform/reachable-files.ts'
import { prefix } from '../../harness/temporary.ts'

/** A uid without an account. Only file modes decide, so the tests need no root. */
const other = { uid: 39_999, gid: 39_999 }

let folder: string
let closed: string
let source: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), prefix))
  await chmod(folder, 0o711)
  closed = join(folder, 'closed')
  source = join(closed, 'native')
  await mkdir(join(source, 'bin'), { recursive: true })
  await mkdir(join(source, 'lib'))
  await writeFile(join(source, 'bin', 'tool'), '#!/bin/sh\nexit 0\n')
  await chmod(join(source, 'bin', 'tool'), 0o755)
  await writeFile(join(source, 'lib', 'libx.so.1.2'), 'library')
  await chmod(join(source, 'lib', 'libx.so.1.2'), 0o644)
  await symlink('libx.so.1.2', join(source, 'lib', 'libx.so'))
  const links = [
    { source: 'native/lib/libx.so.1.2', target: 'native/lib/libx.so' },
    { source: 'native/lib/libx.so.1.2', target: 'native/lib/libx.so.1' },
  ]
  await writeFile(join(source, 'pg-symlinks.json'), JSON.stringify(links))
  for (const path of [source, join(source, 'bin'), join(source, 'lib')]) await chmod(path, 0o755)
  await chmod(join(source, 'pg-symlinks.json'), 0o644)
  await chmod(closed, 0o700)
})
afterEach(() => rm(folder, { recursive: true, force: true }))

describe('access by file mode', () => {
  it('is decided by exactly one class', () => {
    const file = { uid: 1, gid: 2, mode: 0o100_047 }
    expect(mayAccess(file, { uid: 1, gid: 2 }, 4)).toBe(false)
    expect(mayAccess(file, { uid: 3, gid: 2 }, 4)).toBe(true)
    expect(mayAccess(file, { uid: 3, gid: 2 }, 1)).toBe(false)
    expect(mayAccess(file, { uid: 3, gid: 3 }, 7)).toBe(true)
  })

  it('is never refused to root', () => {
    fc.assert(
      fc.property(fc.nat(0o777), fc.nat(7), (mode, bits) => {
        expect(mayAccess({ uid: 5, gid: 5, mode }, { uid: 0, gid: 0 }, bits)).toBe(true)
      }),
    )
  })
})

describe('reaching a tree', () => {
  it('needs every parent folder to be open', async () => {
    expect(await isReachable(source, other)).toBe(false)
    await chmod(closed, 0o711)
    expect(await isReachable(source, other)).toBe(true)
  })

  it('is always possible for the user of the server', async () => {
    expect(await isReachable(source, null)).toBe(true)
    await assertReachable(source, null)
  })

  it('needs every file to be readable and every program to be executable', async () => {
    await chmod(closed, 0o711)
    const tool = join(source, 'bin', 'tool')
    expect(await isReachable(tool, other)).toBe(true)
    await chmod(tool, 0o744)
    expect(await isReachable(tool, other)).toBe(false)
    expect(await isReachable(source, other)).toBe(false)
    await chmod(tool, 0o755)
    await chmod(join(source, 'lib'), 0o711)
    expect(await isReachable(source, other)).toBe(false)
  })

  it('follows links that point outside the tree', async () => {
    await chmod(closed, 0o711)
    await mkdir(join(folder, 'secret'), { mode: 0o700 })
    await symlink(join(folder, 'secret'), join(source, 'out'))
    expect(await isReachable(source, other)).toBe(false)
    await chmod(join(folder, 'secret'), 0o755)
    expect(await isReachable(source, other)).toBe(true)
  })

  it('fails with the name of the closed folder and another place, even for a missing folder', async () => {
    const assertion = assertReachable(join(closed, 'data', 'postgres'), other)
    await expect(assertion).rejects.toThrow(`the folder ${closed} does not let that user in`)
    await expect(assertion).rejects.toThrow(/--data-dir, for example \/var\/lib\/fairlead\)\.$/)
    await chmod(closed, 0o711)
    await assertReachable(join(closed, 'data', 'postgres'), other)
  })
})

describe('a reachable copy', () => {
  it('is the original when that can be reached', async () => {
    await chmod(closed, 0o711)
    expect(await reachableCopy({ source, copyTo: join(folder, 'copy'), user: other })).toBe(source)
    expect(await readdir(folder)).toEqual(['closed'])
  })

  it('is made once, complete and readable for everybody', async () => {
    await chmod(join(source, 'bin', 'tool'), 0o700)
    await chmod(join(source, 'lib', 'libx.so.1.2'), 0o600)
    const copyTo = join(folder, 'made', 'copy')
    expect(await reachableCopy({ source, copyTo, user: other })).toBe(copyTo)
    expect(await isReachable(copyTo, other)).toBe(true)
    expect((await stat(join(copyTo, 'bin', 'tool'))).mode & 0o777).toBe(0o755)
    expect((await stat(join(copyTo, 'lib', 'libx.so.1.2'))).mode & 0o777).toBe(0o644)
    expect(await readlink(join(copyTo, 'lib', 'libx.so'))).toBe('libx.so.1.2')
    await promisify(execFile)(join(copyTo, 'bin', 'tool'))
    const { ctimeMs } = await stat(copyTo)
    await reachableCopy({ source, copyTo, user: other })
    expect((await stat(copyTo)).ctimeMs).toBe(ctimeMs)
    expect(await readdir(dirname(copyTo))).toEqual(['copy'])
  })

  it('can be a single file', async () => {
    const copyTo = join(folder, 'tool-1')
    await reachableCopy({ source: join(source, 'bin', 'tool'), copyTo, user: other })
    await promisify(execFile)(copyTo)
    const plain = join(folder, 'plain')
    await reachableCopy({ source: join(source, 'lib', 'libx.so.1.2'), copyTo: plain, user: other })
    expect(await readFile(plain, 'utf8')).toBe('library')
  })

  it('can be made by several callers at once', async () => {
    const copyTo = join(folder, 'copy')
    await Promise.all(Array.from({ length: 4 }, () => reachableCopy({ source, copyTo, user: other })))
    expect((await readdir(folder)).sort()).toEqual(['closed', 'copy'])
    expect(await isReachable(copyTo, other)).toBe(true)
  })

  it('leaves nothing behind when it fails', async () => {
    const finish = () => Promise.reject(new Error('no space'))
    await expect(copyOnce({ source, copyTo: join(folder, 'copy'), finish })).rejects.toThrow('no space')
    expect(await readdir(folder)).toEqual(['closed'])
  })

  it('is refused when the copy cannot be reached, either', async () => {
    const copyTo = join(closed, 'copy')
    await expect(reachableCopy({ source, copyTo, user: other })).rejects.toThrow(/does not let that user in/)
  })
})

describe('the binaries of PostgreSQL', () => {
  const use = (user: typeof other | null) =>
    reachableBinaries({ binaries: { version: '18.4', directory: source }, copyTo: join(folder, 'runtime'), user })

  it('are completed in a copy when npm made no links', async () => {
    expect(await use(null)).toBe(join(folder, 'runtime', '18.4'))
    expect(await readlink(join(folder, 'runtime', '18.4', 'lib', 'libx.so.1'))).toBe('libx.so.1.2')
    expect((await readdir(join(source, 'lib'))).sort()).toEqual(['libx.so', 'libx.so.1.2'])
  })

  it('are used in place when they are complete and can be reached', async () => {
    await symlink('libx.so.1.2', join(source, 'lib', 'libx.so.1'))
    expect(await use(null)).toBe(source)
    expect(await use(other)).toBe(join(folder, 'runtime', '18.4'))
    await chmod(closed, 0o711)
    expect(await use(other)).toBe(source)
  })
})

it('makes folders that others may pass through, whatever the umask is', async () => {
  const umask = process.umask(0o077)
  try {
    await makePassableDirectory(join(folder, 'a', 'b'))
  } finally {
    process.umask(umask)
  }
  expect((await stat(join(folder, 'a', 'b'))).mode & 0o777).toBe(0o711)
  expect((await stat(join(folder, 'a'))).mode & 0o777).toBe(0o711)
  expect((await stat(folder)).mode & 0o777).toBe(0o711)
})
