import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, readdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { inspectProcess } from '../../../server/src/platform/processes.ts'
import { createHome, gone, type Home, query, until, user } from './fixtures/cluster-harness.ts'

let home: Home
beforeEach(async () => {
  home = await createHome()
})
afterEach(() => home.remove())

/** A logger that lets a test wait for a message. */
function listeningLogger() {
  const waiting = new Map<string, () => void>()
  const note = (_: unknown, message?: string) => waiting.get(message ?? '')?.()
  return {
    logger: { info: note, warn: note, error: note },
    heard: (message: string) => new Promise<void>((resolve) => waiting.set(message, resolve)),
  }
}

it('adopts the postmaster that a killed process left, and stops it at the close', async () => {
  const owner = home.spawnOpener({ supervise: true })
  await owner.opened()
  const pid = await home.postmasterPid()
  await owner.kill()
  expect(await inspectProcess(pid)).not.toBeNull()
  const cluster = await home.open()
  expect(await home.postmasterPid()).toBe(pid)
  expect(await query(cluster.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  await cluster.close()
  expect(await inspectProcess(pid)).toBeNull()
})

it('restarts a supervised postmaster each time it is killed', async () => {
  const { logger, heard } = listeningLogger()
  const cluster = await home.open({ supervise: true, logger })
  await query(cluster.connection, 'CREATE TABLE kept AS SELECT 42 AS answer')
  for (let round = 0; round < 2; round++) {
    const pid = await home.postmasterPid()
    const back = heard('PostgreSQL is back')
    process.kill(pid, 'SIGKILL')
    await back
    expect(await home.postmasterPid()).not.toBe(pid)
    expect(await query(cluster.connection, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }])
  }
  const last = await home.postmasterPid()
  await cluster.close()
  expect(await inspectProcess(last)).toBeNull()
})

it('restarts an adopted postmaster under supervision', async () => {
  const owner = home.spawnOpener()
  await owner.opened()
  const { logger, heard } = listeningLogger()
  const cluster = await home.open({ supervise: true, logger })
  const back = heard('PostgreSQL is back')
  await owner.kill()
  process.kill(await home.postmasterPid(), 'SIGKILL')
  await back
  expect(await query(cluster.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
})

it('keeps its membership when PostgreSQL restarts itself after the crash of a backend', async () => {
  const { logger, heard } = listeningLogger()
  const cluster = await home.open({ supervise: true, logger })
  const pid = await home.postmasterPid()
  const back = heard('PostgreSQL is back')
  const victim = new pg.Client(cluster.connection)
  victim.on('error', () => undefined)
  await victim.connect()
  const ended = new Promise<void>((resolve) => victim.once('end', resolve))
  const { rows } = await victim.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  process.kill(rows[0]?.pid as number, 'SIGKILL')
  await Promise.all([ended, back])
  await (await home.open()).close()
  expect(await home.postmasterPid()).toBe(pid)
  expect(await query(cluster.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
})

it('can be closed while PostgreSQL cannot be restarted', async () => {
  const { logger, heard } = listeningLogger()
  const cluster = await home.open({ supervise: true, logger })
  await appendFile(join(home.directory, 'postgresql.conf'), '\nno_such_setting = 1\n')
  const failed = heard('PostgreSQL could not be started again')
  process.kill(await home.postmasterPid(), 'SIGKILL')
  await failed
  await cluster.close()
  await expect(home.postmasterPid()).rejects.toThrow('No postmaster')
})

it('recovers when its creation was interrupted', async () => {
  const opener = home.spawnOpener()
  const isCreating = async () => {
    const names = await readdir(home.parent).catch(() => [])
    const folder = names.find((name) => name.includes('.initdb-'))
    return folder !== undefined && (await readdir(join(home.parent, folder))).includes('base')
  }
  await until(isCreating)
  await opener.kill()
  expect(await home.leftovers()).not.toEqual([])
  const cluster = await home.open()
  expect(await query(cluster.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  expect(await home.leftovers()).toEqual([])
})

it('ends with one postmaster when four processes find a dead process’s lock', async () => {
  const owner = home.spawnOpener()
  await owner.opened()
  const pid = await home.postmasterPid()
  await owner.kill()
  process.kill(pid, 'SIGKILL')
  await gone(pid)
  const openers = Array.from({ length: 4 }, () => home.spawnOpener())
  const connections = await Promise.all(openers.map((opener) => opener.opened()))
  for (const connection of connections) {
    expect(await query(connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  }
  expect(await home.starts()).toBe(2)
  expect(await Promise.all(openers.map((opener) => opener.close()))).toEqual([0, 0, 0, 0])
  await expect(home.postmasterPid()).rejects.toThrow('No postmaster')
})

it('starts although the locks name a living process of another program', async () => {
  const opener = home.spawnOpener()
  const { host } = await opener.opened()
  const pid = await home.postmasterPid()
  const files = [join(home.directory, 'postmaster.pid'), join(host, '.s.PGSQL.5432.lock')]
  const locks = await Promise.all(files.map((file) => readFile(file, 'utf8')))
  await opener.close()
  // Runs as PostgreSQL's user: PostgreSQL itself ignores another user's pid.
  const stranger = spawn('sleep', ['600'], { ...(user ?? {}), stdio: 'ignore' })
  try {
    await once(stranger, 'spawn')
    for (const [index, file] of files.entries()) {
      await writeFile(file, (locks[index] ?? '').replace(String(pid), String(stranger.pid)))
    }
    const cluster = await home.open()
    expect(await query(cluster.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
    await cluster.close()
    expect(stranger.exitCode).toBeNull()
  } finally {
    stranger.kill()
  }
})

it('starts although the lock names the server itself', async () => {
  await (await home.open()).close()
  await writeFile(join(home.directory, 'postmaster.pid'), `${process.pid}\n${home.directory}\n0\n5432\n/tmp\n\n`)
  const cluster = await home.open()
  expect(await query(cluster.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
})

it('starts although a full disk left an empty lock', async () => {
  await (await home.open()).close()
  const lock = join(home.directory, 'postmaster.pid')
  await writeFile(lock, '')
  await truncate(lock)
  const cluster = await home.open()
  expect(await query(cluster.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
})

it('waits for the backends that outlive a killed postmaster', async () => {
  const owner = home.spawnOpener()
  const connection = await owner.opened()
  const pid = await home.postmasterPid()
  const busy = new pg.Client(connection)
  busy.on('error', () => undefined)
  await busy.connect()
  const { rows } = await busy.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  // A computing backend does not notice the end of its postmaster until it finishes.
  const computing = busy
    .query(`DO $$ DECLARE deadline timestamptz := clock_timestamp() + interval '2 s';
      BEGIN WHILE clock_timestamp() < deadline LOOP END LOOP; END $$`)
    .catch(() => undefined)
  const observer = () => query(connection, `SELECT state FROM pg_stat_activity WHERE pid = ${rows[0]?.pid}`)
  await until(async () => (await observer())[0]?.['state'] === 'active')
  await owner.kill()
  process.kill(pid, 'SIGKILL')
  const cluster = await home.open()
  expect(await inspectProcess(rows[0]?.pid as number)).toBeNull()
  expect(await query(cluster.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  await computing
  await busy.end()
})
