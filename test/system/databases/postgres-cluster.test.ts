import { appendFile, chmod, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Cluster } from '../../../server/src/platform/postgres/cluster.ts'
import { initialise } from '../../../server/src/platform/postgres/initialise.ts'
import { inspectProcess } from '../../../server/src/platform/processes.ts'
import { makePassableDirectory } from '../../../server/src/platform/reachable-files.ts'
import { silentLogger } from '../../harness/platform/fixtures/silent-logger.ts'
import { createHome, type Home, isRoot, query, user } from './fixtures/cluster-harness.ts'

let home: Home
beforeEach(async () => {
  home = await createHome()
})
afterEach(() => home.remove())

describe('opening a cluster', () => {
  it('creates it at the first start and stops it at the last close', async () => {
    const cluster = await home.open()
    const pid = await home.postmasterPid()
    expect(await query(cluster.connection, 'SELECT current_database() AS name, current_user AS user')).toEqual([
      { name: 'fairlead', user: 'fairlead' },
    ])
    await cluster.close()
    expect(await inspectProcess(pid)).toBeNull()
    expect(await home.log()).toContain('database system is shut down')
    expect(await home.leftovers()).toEqual([])
  })

  it('keeps its data when it is opened again', async () => {
    const first = await home.open()
    await query(first.connection, 'CREATE TABLE kept AS SELECT 42 AS answer')
    await first.close()
    const second = await home.open()
    expect(await query(second.connection, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }])
  })

  it('is shared with other processes, and stopped by the last of them', async () => {
    const other = home.spawnOpener()
    const connection = await other.opened()
    const pid = await home.postmasterPid()
    const own = await home.open()
    expect(own.connection).toEqual(connection)
    await own.close()
    expect(await query(connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
    expect(await home.postmasterPid()).toBe(pid)
    expect(await other.close()).toBe(0)
    expect(await inspectProcess(pid)).toBeNull()
  })

  it('ends with one postmaster when four processes create it at once', async () => {
    const openers = Array.from({ length: 4 }, () => home.spawnOpener())
    const connections = await Promise.all(openers.map((opener) => opener.opened()))
    for (const connection of connections) {
      expect(await query(connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
    }
    expect(await home.starts()).toBe(1)
    const pid = await home.postmasterPid()
    expect(await Promise.all(openers.map((opener) => opener.close()))).toEqual([0, 0, 0, 0])
    expect(await inspectProcess(pid)).toBeNull()
    expect(await home.leftovers()).toEqual([])
  })

  it('succeeds while another user of the cluster stops it', async () => {
    let cluster = await home.open()
    for (let round = 0; round < 5; round++) {
      const [, next] = await Promise.all([cluster.close(), home.open()])
      expect(await query(next.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
      cluster = next
    }
    const pid = await home.postmasterPid()
    await cluster.close()
    expect(await inspectProcess(pid)).toBeNull()
  })

  it('leaves the cluster stopped when all users close at once', async () => {
    const clusters = await Promise.all([home.open(), home.open(), home.open()])
    const pid = await home.postmasterPid()
    await Promise.all(clusters.map((cluster) => cluster.close()))
    expect(await inspectProcess(pid)).toBeNull()
  })

  it('works under a path that is too long for a socket', async () => {
    const directory = join(home.path, 'long-'.repeat(20), 'postgres', 'data')
    const cluster = await home.open({ directory })
    try {
      expect(cluster.connection.host.startsWith(home.path)).toBe(false)
      expect((await stat(cluster.connection.host)).mode & 0o777).toBe(0o700)
      expect(await query(cluster.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
    } finally {
      await cluster.close()
      await rm(cluster.connection.host, { recursive: true })
    }
  })

  it('replaces a log of more than 10 MB and keeps one predecessor', async () => {
    await mkdir(home.parent, { mode: 0o711 })
    const log = join(home.parent, 'postgres.log')
    await writeFile(log, 'x'.repeat(11 * 1024 * 1024))
    await home.open()
    expect((await stat(log)).size).toBeLessThan(100_000)
    expect((await stat(`${log}.1`)).size).toBe(11 * 1024 * 1024)
  })
})

describe('an open cluster', () => {
  let shared: Home
  let cluster: Cluster
  beforeAll(async () => {
    shared = await createHome()
    cluster = await shared.open()
  })
  afterAll(() => shared.remove())

  it('listens only on a socket in a folder that is closed to others', async () => {
    const { connection } = cluster
    expect(await query(connection, 'SHOW listen_addresses')).toEqual([{ listen_addresses: '' }])
    const folder = await stat(connection.host)
    expect(folder.mode & 0o777).toBe(0o700)
    expect(folder.uid).toBe(user?.uid ?? process.getuid?.())
    expect((await stat(shared.directory)).mode & 0o077).toBe(0)
  })

  it('survives a power failure: it flushes writes to the disk', async () => {
    const { connection } = cluster
    expect(await query(connection, 'SHOW fsync')).toEqual([{ fsync: 'on' }])
    expect(await query(connection, 'SHOW synchronous_commit')).toEqual([{ synchronous_commit: 'on' }])
  })

  it('sorts and folds letters independently of the system', async () => {
    const { connection } = cluster
    expect(await query(connection, "SELECT datlocprovider AS p FROM pg_database WHERE datname = 'fairlead'")).toEqual([
      { p: 'b' },
    ])
    expect(await query(connection, "SELECT upper('äö') AS upper, 'ä' ~ '^[[:alpha:]]$' AS alpha")).toEqual([
      { upper: 'ÄÖ', alpha: true },
    ])
  })
})

describe('opening fails with a helpful message', () => {
  if (isRoot) {
    it('when only root may enter a parent folder', async () => {
      const closed = join(home.path, 'closed')
      await mkdir(closed, { mode: 0o700 })
      const directory = join(closed, 'postgres', 'data')
      const opening = home.open({ directory })
      await expect(opening).rejects.toThrow(/--data-dir, for example \/var\/lib\/fairlead/)
      await expect(opening).rejects.toThrow(`the folder ${closed} does not let that user in`)
    })
  } else {
    it('when a parent folder cannot be written', async () => {
      const closed = join(home.path, 'closed')
      await mkdir(closed, { mode: 0o500 })
      await expect(home.open({ directory: join(closed, 'postgres', 'data') })).rejects.toThrow(
        /The folder .*closed.* cannot be written: EACCES/,
      )
    })
  }

  it('when another major version created the data', async () => {
    await mkdir(home.directory, { recursive: true })
    await writeFile(join(home.directory, 'PG_VERSION'), '9\n')
    if (isRoot) await chmod(home.parent, 0o711)
    await expect(home.open()).rejects.toThrow(/made by PostgreSQL 9, and this release brings PostgreSQL 18.*pg_dumpall/)
  })

  it('when the folder holds something else', async () => {
    await mkdir(home.directory, { recursive: true })
    await writeFile(join(home.directory, 'photo.jpg'), '')
    await expect(home.open()).rejects.toThrow(/holds files, but no PostgreSQL cluster/)
    expect(await readFile(join(home.directory, 'photo.jpg'), 'utf8')).toBe('')
  })

  it('when PostgreSQL ends while starting: with the end of its log', async () => {
    await (await home.open()).close()
    await appendFile(join(home.directory, 'postgresql.conf'), '\nno_such_setting = 1\n')
    await expect(home.open()).rejects.toThrow(/ended while starting.*unrecognized configuration parameter/s)
    expect(await home.leftovers()).toEqual([])
  })

  it('when initdb fails: with the end of its output', async () => {
    const native = join(home.path, 'native')
    await mkdir(join(native, 'bin'), { recursive: true })
    await writeFile(join(native, 'pg-symlinks.json'), '[]')
    await writeFile(join(native, 'bin', 'initdb'), '#!/bin/sh\necho creating\necho "the disk is full" >&2\nexit 1\n')
    await chmod(join(native, 'bin', 'initdb'), 0o755)
    await makePassableDirectory(home.parent)
    const attempt = initialise({
      directory: home.directory,
      binaries: { version: '18.4', directory: native },
      runtimeDirectory: join(home.path, 'runtime'),
      user,
      logger: silentLogger,
      signal: new AbortController().signal,
    })
    await expect(attempt).rejects.toThrow(/could not be created in .*postgres:\n(creating\n)?the disk is full/)
    expect(await readdir(home.parent)).toEqual([])
  })

  it('when it is aborted: nothing keeps running', async () => {
    const aborter = new AbortController()
    const opening = home.open({ signal: aborter.signal })
    aborter.abort()
    await expect(opening).rejects.toThrow(/abort/i)
    expect(await home.leftovers().catch(() => [])).toEqual([])
    await expect(home.postmasterPid()).rejects.toThrow('No postmaster')
  })
})
