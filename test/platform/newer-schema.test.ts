import { expect, it } from 'vitest'
import { migrate } from '../../server/src/platform/database.ts'
import { migrations } from '../../server/src/platform/migrations/index.ts'
import { databaseBefore } from '../harness/database.ts'

it('a version that does not know the schema of a newer one says so, and changes nothing', async () => {
  const [last = ''] = Object.keys(migrations).sort().slice(-1)
  await using database = await databaseBefore(last)
  await migrate(database.db, migrations)
  const older = Object.fromEntries(Object.entries(migrations).filter(([name]) => name < last))
  await expect(migrate(database.db, older)).rejects.toThrow(
    `The database is newer than this version of Fairlead: it has the migration ${last}.`,
  )
  await migrate(database.db, migrations)
})
