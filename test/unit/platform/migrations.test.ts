import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { migrations } from '../../../server/src/platform/migrations/index.ts'
import {
  type Migrations,
  oldestServerAfter,
  pendingMigrations,
} from '../../../server/src/platform/migrations/schema.ts'

/**
 * The SHA-256 of each file. A released migration never changes. Until the first release, a change of the first migration
 * raises the last number of its name, in the index and here: databases with the former schema are refused by the name.
 */
const digests: Readonly<Record<string, string>> = {
  '0001-first-release-1': 'f4f090cfb3e1c29bb5cedae328f03ac6f549ed4aece1b8479f669fcaa3e8c8a7',
}

const folder = new URL('../../../server/src/platform/migrations/', import.meta.url)
const names = Object.keys(migrations)
const files = (await readdir(folder)).filter((file) => /^\d{4}-/.test(file)).sort()

it('every migration file is in the index under its name, in the order of the numbers', async () => {
  expect(files.map((file) => Number(file.slice(0, 4)))).toEqual(files.map((_, at) => at + 1))
  expect(names).toHaveLength(files.length)
  for (const [at, file] of files.entries()) {
    const name = names[at] ?? ''
    expect(name).toContain(file.replace(/\.ts$/, ''))
    const [step] = Object.values((await import(new URL(file, folder).href)) as Record<string, { up: unknown }>)
    expect(migrations[name]?.up).toBe(step?.up)
  }
})

it('no migration changes under its name', async () => {
  const found = await Promise.all(
    files.map(async (file) =>
      createHash('sha256')
        .update(await readFile(new URL(file, folder)))
        .digest('hex'),
    ),
  )
  expect(Object.fromEntries(names.map((name, at) => [name, found[at]]))).toEqual(digests)
})

/** A later version, with a migration that removes something. */
const later = (oldest: { readonly oldestServer?: string } = {}): Migrations => ({
  ...migrations,
  '0900-next': {
    ...oldest,
    async up(db) {
      await sql`alter table projects drop column region`.execute(db)
    },
  },
})

describe('a schema', () => {
  it.each([
    ['from before the first release', ['0001-foundation', '0002-accounts']],
    ['of a former state of the first migration', ['0001-first-release-0']],
  ])('%s is refused, and the message says what to do', (_, applied) => {
    expect(() => pendingMigrations(migrations, { applied, oldestServer: applied.at(-1) })).toThrow(
      /^The data is from a version of Fairlead before its first release, .* with a new data directory, /,
    )
  })

  it('of another line of versions is refused', () => {
    const applied = [...names, '0900-other']
    expect(() => pendingMigrations(later(), { applied, oldestServer: names[0] })).toThrow(
      'The database is newer than this version of Fairlead: it has the migration 0900-other.',
    )
  })

  it('of a later version that only adds is one on which every server works', () => {
    expect(pendingMigrations(migrations, { applied: [...names, '0900-next'], oldestServer: names[0] })).toEqual([])
    expect(oldestServerAfter(later())).toBe(oldestServerAfter(migrations))
  })
})

/** Statements that may break a server that runs on the schema before them. */
const contracting =
  /\bdrop (table|column|constraint|index)|\brename\b|set not null|\balter column \S+ (set data )?type\b/i

/** Returns the migrations that remove or rename something and do not name the oldest servers that work after them. */
async function silent(all: Migrations): Promise<string[]> {
  const statements: string[] = []
  const db = new Kysely<unknown>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (on) => new PostgresIntrospector(on),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: ({ query }) => void statements.push(query.sql),
  })
  const found: string[] = []
  for (const [name, { up, oldestServer }] of Object.entries(all)) {
    statements.length = 0
    await up(db)
    const contracts = statements.some((statement) => contracting.test(statement))
    if (contracts && oldestServer === undefined) found.push(name)
  }
  return found
}

it('a migration that removes or renames something names the oldest servers that work after it', async () => {
  expect(await silent(migrations)).toEqual([])
  expect(await silent(later())).toEqual(['0900-next'])
  expect(await silent(later({ oldestServer: '0900-next' }))).toEqual([])
})
