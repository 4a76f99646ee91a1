import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { testDatabase } from '../../harness/database.ts'
import { databaseProxy } from '../../harness/database-proxy.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const program = fileURLToPath(new URL('./fixtures/campaign-writer.ts', import.meta.url))
const servers = [0, 1, 2]

const commands = ['stop', 'kill', 'start', 'pause', 'continue', 'away', 'back', 'break lock', 'break all'] as const
const step = fc.record({
  command: fc.constantFrom(...commands),
  server: fc.constantFrom(...servers, 'leader' as const),
  /** Continue at once, after a moment, or after a write by a server that can write. */
  afterwards: fc.constantFrom('next' as const, 'moment' as const, 'written' as const),
  momentMs: fc.integer({ min: 1, max: 400 }),
})
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

/** Three servers, each a process with a separate path to one database. */
async function cluster() {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const database = cleanup.use(await testDatabase())
  await database.query('create table written (epoch bigint not null)')
  await database.query(
    'create table begun (id int generated always as identity, epoch bigint not null, before int not null)',
  )
  const members = await Promise.all(
    servers.map(async (server) => {
      const folder = join(directory.path, `${server}`)
      await mkdir(folder)
      const proxy = cleanup.use(await databaseProxy(database.url, folder))
      return { proxy, child: undefined as ChildProcess | undefined, paused: false, away: false }
    }),
  )
  type Member = (typeof members)[number]

  const start = (member: Member, id: number) => {
    if (member.child !== undefined) return
    const epochDirectory = join(directory.path, 'leader-epoch')
    const options = { id: `${id}`, epochDirectory, connection: { connectionString: member.proxy.url } }
    member.child = spawn(process.execPath, [program, JSON.stringify(options)], { stdio: ['pipe', 'ignore', 'inherit'] })
  }
  const end = async (member: Member, how: 'stop' | 'kill') => {
    const { child } = member
    if (child === undefined) return
    member.child = undefined
    const exited = once(child, 'exit')
    if (how === 'kill') child.kill('SIGKILL')
    else child.stdin?.end()
    if (how === 'stop' && member.paused) child.kill('SIGCONT')
    member.paused = false
    await exited
  }
  const signal = (member: Member, name: 'SIGSTOP' | 'SIGCONT') => {
    member.paused = member.child !== undefined && name === 'SIGSTOP'
    member.child?.kill(name)
  }
  const terminate = (names: string) =>
    database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name ~ $1`,
      [names],
    )
  const actions: Record<Step['command'], (member: Member, id: number) => unknown> = {
    stop: (member) => end(member, 'stop'),
    kill: (member) => end(member, 'kill'),
    start,
    pause: (member) => signal(member, 'SIGSTOP'),
    continue: (member) => signal(member, 'SIGCONT'),
    away: (member) => {
      member.away = true
      return member.proxy.cut()
    },
    back: async (member) => {
      if (member.away) await member.proxy.restore()
      member.away = false
    },
    'break lock': () => terminate('^fairlead leadership$'),
    'break all': () => terminate('^fairlead leader'),
  }
  const counted = async () => (await database.query('select from written')).length
  /** Resolves when a server has written, unless none can. */
  const untilWritten = async () => {
    if (!members.some(({ child, paused, away }) => child !== undefined && !paused && !away)) return
    const before = await counted()
    await expect.poll(counted, { timeout: 60_000 }).toBeGreaterThan(before)
  }

  cleanup.defer(async () => {
    await Promise.all(members.map((member) => end(member, 'kill')))
  })
  const owned = cleanup.move()
  return {
    database,
    untilWritten,
    act: async ({ command, server }: Pick<Step, 'command' | 'server'>) => {
      const [row] = await database.query<{ holder: string | null }>('select holder from leadership')
      const id = server === 'leader' ? Number(row?.holder ?? 0) : server
      const member = members[id]
      if (member !== undefined) await actions[command](member, id)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

it('no leader writes after a later one has begun, whatever happens to servers and database, and in the end one leads', {
  timeout: 600_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 12 }), async (steps) => {
      await using test = await cluster()
      for (const server of servers) await test.act({ command: 'start', server })
      await test.untilWritten()
      for (const each of steps) {
        await test.act(each)
        if (each.afterwards === 'moment') await sleep(each.momentMs)
        if (each.afterwards === 'written') await test.untilWritten()
      }
      for (const command of ['back', 'continue', 'start'] as const)
        for (const server of servers) await test.act({ command, server })
      await test.untilWritten()

      const begun = await test.database.query<{ epoch: string; before: number }>('select * from begun order by id')
      const epochs = begun.map(({ epoch }) => Number(epoch))
      expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b))
      const [late] = await test.database.query<{ found: number }>(
        `select count(*)::int as found from begun
         where before <> (select count(*) from written where written.epoch < begun.epoch)`,
      )
      expect(late?.found).toBe(0)
      // The final leader has the newest epoch, unless the epoch is changing at this moment.
      await expect
        .poll(() =>
          test.database.query(
            `select distinct substr(application_name, 17)::bigint = (select epoch from leadership) as newest
             from pg_stat_activity where datname = current_database() and application_name ~ '^fairlead leader [0-9]'`,
          ),
        )
        .toEqual([{ newest: true }])
    }),
    { numRuns: Number(process.env['LEADERSHIP_RUNS'] ?? 5), endOnFailure: true },
  )
})
