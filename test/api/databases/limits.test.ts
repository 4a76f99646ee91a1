import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import type pg from 'pg'
import { describe, expect, it } from 'vitest'
import { databaseLimits, restrictionFor } from '../../../server/src/features/databases/limits.ts'
import { snapshotsToRemove } from '../../../server/src/features/databases/snapshots.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { connect, createdDatabase, query, untilDatabase } from '../../harness/databases.ts'
import { ownServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

describe('the limits of a plan', () => {
  it('follow from its sizes', () => {
    const shown = Object.entries(shippedPlans).map(([name, plan]) => {
      const { bytes, connections, workMemoryMb, temporaryMb } = databaseLimits(plan)
      return [name, bytes / 1e9, connections, workMemoryMb, temporaryMb]
    })
    expect(shown).toEqual([
      ['free', 1, 10, 4, 100],
      ['starter', 5, 22, 4, 500],
      ['pro', 20, 45, 7, 2000],
      ['enterprise', 100, 100, 31, 10_000],
    ])
  })

  it('forbid writes above the size and logins far above it, and allow both again below', () => {
    const limits = databaseLimits({ database_gb: 1, memory_mb: 512 })
    expect(restrictionFor(1e9, limits, 'none')).toBe('none')
    expect(restrictionFor(1e9 + 1, limits, 'none')).toBe('read_only')
    expect(restrictionFor(0.99e9, limits, 'read_only')).toBe('read_only')
    expect(restrictionFor(0.97e9, limits, 'read_only')).toBe('none')
    expect(restrictionFor(1.51e9, limits, 'read_only')).toBe('no_login')
    expect(restrictionFor(1.48e9, limits, 'no_login')).toBe('no_login')
    expect(restrictionFor(1.2e9, limits, 'no_login')).toBe('read_only')
  })
})

describe('the retained snapshots', () => {
  const limits = databaseLimits({ database_gb: 1, memory_mb: 512 })
  const now = new Date('2026-01-31T00:00:00Z')
  const snapshot = fc.record({
    id: fc.uuid(),
    sizeBytes: fc.integer({ min: 0, max: 1.5e9 }),
    createdAt: fc.date({ min: new Date('2025-11-01'), max: now, noInvalidDate: true }),
  })

  it('are the newest, young, and together no larger than the database may be', () => {
    fc.assert(
      fc.property(fc.array(snapshot, { maxLength: 12 }), (given) => {
        const snapshots = given.toSorted((a, b) => b.createdAt.getTime() - a.createdAt.getTime())
        const gone = snapshotsToRemove(snapshots, limits, now)
        const kept = snapshots.filter(({ id }) => !gone.includes(id))
        expect(kept.length).toBeLessThanOrEqual(5)
        expect(kept[0]).toBe(snapshots[0])
        const others = kept.slice(1)
        for (const { createdAt } of others) expect(now.getTime() - createdAt.getTime()).toBeLessThanOrEqual(30 * 864e5)
        if (others.length > 0) expect(kept.reduce((sum, each) => sum + each.sizeBytes, 0)).toBeLessThanOrEqual(1e9)
      }),
    )
  })
})

const rows = 'select repeat(md5(g::text), 20) from generate_series(1, 25000) g'

/** True when the size check ended the session, which may happen at any time. Throws every other error. */
const isEnded = (error: { code?: string }): true => {
  if (error.code !== '57P01') throw error
  return true
}

/** Creates a table of 17 MB. Retries when the session is ended, because that rolls the table back. */
async function fill(connectionString: string): Promise<void> {
  const text = `begin read write; create table if not exists big as ${rows}; commit`
  let ended = true
  while (ended) ended = await query(connectionString, text).then(() => false, isEnded)
}

/** Adds 17 MB to the table and stays connected until the session is ended. Rolled-back rows also take space. */
async function growUntilEnded(client: pg.Client): Promise<void> {
  const ended = new Promise((done) => client.once('end', done))
  await client.query(`begin read write; insert into big ${rows}; commit`).catch(isEnded)
  await ended
}

describe('a database that grows beyond its plan', () => {
  it('becomes read-only, is shown as read-only, and takes writes again when it is smaller', async () => {
    await using directory = await temporaryDirectory()
    const file = join(directory.path, 'plans.json')
    await writeFile(file, JSON.stringify({ ...shippedPlans, small: { ...shippedPlans['free'], database_gb: 0.02 } }))
    await using server = await ownServer({ FAIRLEAD_PLANS_FILE: file })
    const project = (await server.client.projects.create({ body: { name: 'p' } })).id
    const { id, connection_string } = await createdDatabase(server.client, project, { name: 'db', plan: 'small' })
    await fill(connection_string)

    await untilDatabase(server.client, project, id, ({ read_only }) => read_only)
    await expect(query(connection_string, 'create table more ()')).rejects.toMatchObject({
      code: '25006',
      message: 'cannot execute CREATE TABLE in a read-only transaction',
    })
    expect(await query(connection_string, 'select count(*) from big')).toEqual([['25000']])

    // The documentation tells users to free space this way.
    {
      await using client = await connect(connection_string)
      await client.query('set default_transaction_read_only = off')
      await client.query('drop table big')
    }
    await untilDatabase(server.client, project, id, ({ read_only }) => !read_only)
    await query(connection_string, 'create table more ()')
  })

  it('refuses logins when it grows all the same', async () => {
    await using directory = await temporaryDirectory()
    const file = join(directory.path, 'plans.json')
    await writeFile(file, JSON.stringify({ ...shippedPlans, small: { ...shippedPlans['free'], database_gb: 0.012 } }))
    await using server = await ownServer({ FAIRLEAD_PLANS_FILE: file })
    const project = (await server.client.projects.create({ body: { name: 'p' } })).id
    const { id, connection_string } = await createdDatabase(server.client, project, { name: 'db', plan: 'small' })
    await query(connection_string, 'create table big (text text)')
    let refusal: unknown
    while (refusal === undefined) {
      refusal = await connect(connection_string).then(growUntilEnded, (error) =>
        error.code === '57P01' ? undefined : error,
      )
    }
    expect(refusal).toMatchObject({ code: '28000' })
    await expect(connect(connection_string)).rejects.toMatchObject({ code: '28000' })
    await untilDatabase(server.client, project, id, ({ status, read_only }) => status === 'available' && read_only)
  })
})
