import { Readable, Writable } from 'node:stream'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { createExecutor, createRunWatch } from '../../../server/src/features/runs/executor.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import type { Handle, Release } from '../../../server/src/runtimes/runtime.ts'
import { testDatabase } from '../../harness/database.ts'

it('the end of a command is stored when the database is back, and the mark of a lost end is swept', async () => {
  await using test = await testDatabase()
  const { db, close } = openDatabase({ connectionString: test.url, max: 4 }, pino({ level: 'silent' }))
  const [account, project, app] = [newId('account'), newId('project'), newId('app')]
  await test.query(`insert into accounts (id, name, plan) values ($1, 'a', 'free')`, [account])
  await test.query(
    `insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'local', 'free', 'active')`,
    [project, account],
  )
  await test.query(`insert into apps (id, project_id, name, port) values ($1, $2, 'a', 20000)`, [app, project])
  const begun: (() => void)[] = []
  const executor = createExecutor({
    database: db,
    watch: createRunWatch({ database: db, findValid: async (ids) => new Set(ids), onError: () => undefined }),
    findTarget: async () => ({
      release: { id: null as unknown as string, variables: {} } as Release,
      handle: {} as Handle,
      instances: {
        async attach() {
          const ended = Promise.withResolvers<void>()
          begun.push(ended.resolve)
          await ended.promise
          return { code: 0, signal: null, exceeded: null }
        },
      },
    }),
    mostMinutes: async () => 1,
    mask: (text) => text,
    onEnd: async () => undefined,
    stopping: new AbortController().signal,
  })
  const begin = async () => {
    const id = newId('run')
    await test.query(
      `insert into runs (id, app_id, project_id, account_id, command, status) values ($1, $2, $3, $4, '["true"]', 'waiting')`,
      [id, app, project, account],
    )
    const sink = () => new Writable({ write: (_chunk, _encoding, done) => done() })
    const streams = { stdin: Readable.from([]), stdout: sink(), stderr: sink(), signal: new AbortController().signal }
    const before = begun.length
    const outcome = executor.execute(id, streams)
    await expect.poll(() => begun.length).toBe(before + 1)
    return { outcome, end: () => begun[before]?.() }
  }
  const statuses = async () =>
    (await test.query<{ status: string }>('select status from runs order by id')).map(({ status }) => status)
  const refuse = (code: string) =>
    test.query(`create or replace function refuse() returns trigger language plpgsql as $$
      begin perform nextval('refused'); raise exception 'away' using errcode = '${code}'; end $$`)
  await test.query('create sequence refused')
  await refuse('57P01')
  const away = `create trigger refuse before update on runs for each row execute function refuse()`

  const first = await begin()
  await test.query(away)
  first.end()
  // Not only the first attempt: sequences also count in rolled-back transactions.
  const attempts = async () => Number((await test.query<{ n: string }>('select last_value n from refused'))[0]?.n)
  await expect.poll(attempts).toBeGreaterThan(1)
  await executor.endLost()
  expect(await statuses()).toEqual(['running'])
  await test.query('drop trigger refuse on runs')
  expect(await first.outcome).toMatchObject({ status: 'succeeded' })
  expect(await statuses()).toEqual(['succeeded'])

  const second = await begin()
  await refuse('P0001')
  await test.query(away)
  second.end()
  await expect(second.outcome).rejects.toThrow('away')
  await test.query('drop trigger refuse on runs')
  await executor.endLost()
  expect(await statuses()).toEqual(['succeeded', 'failed'])
  await close()
})
