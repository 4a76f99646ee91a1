import { expect, it } from 'vitest'
import type { AdminConnection } from '../../../server/src/features/databases/postgres/admin-connection.ts'
import { createStoredDatabases } from '../../../server/src/features/databases/postgres/stored-databases.ts'

it('a database is opened after a stop of the server interrupted its copy', async () => {
  const stopping = new AbortController()
  const done: string[] = []
  const run = async (text: string, signal: AbortSignal) => {
    signal.throwIfAborted()
    done.push(text)
  }
  const databases = createStoredDatabases(
    {
      run,
      databaseExists: async () => false,
      async runWithoutSessions(_database: string, _text: string, signal: AbortSignal) {
        stopping.abort(new Error('the server is stopping'))
        signal.throwIfAborted()
      },
    } as Partial<AdminConnection> as AdminConnection,
    null,
  )
  await expect(databases.copy('db', 'snapshot', stopping.signal)).rejects.toThrow('the server is stopping')
  expect(done).toEqual(['alter database "db" allow_connections false', 'alter database "db" allow_connections true'])
})
