import { Client } from 'pg'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { chooseHost, connectionTo, type PostgresHost, parseHosts } from '../../../server/src/platform/database/hosts.ts'
import { listen } from '../../../server/src/platform/database/notifications.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { freePort } from '../../harness/ports.ts'
import { postgresPair } from '../../harness/postgres-by-hand.ts'
import { fairlead, serverProcess } from '../../harness/process.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const logger = pino({ level: 'silent' })

describe('an address with several hosts', () => {
  it('is split into addresses of one host', () => {
    const url = 'postgres://u:p%40@one,two:5433,[::1]:5434/db?target_session_attrs=read-write&sslmode=disable'
    const rest = '/db?target_session_attrs=read-write&sslmode=disable'
    expect(parseHosts(url)).toEqual([
      { host: 'one', port: 5432, url: `postgres://u:p%40@one${rest}` },
      { host: 'two', port: 5433, url: `postgres://u:p%40@two:5433${rest}` },
      { host: '::1', port: 5434, url: `postgres://u:p%40@[::1]:5434${rest}` },
    ])
  })

  it('may name folders of Unix sockets', () => {
    expect(parseHosts('postgresql://u@%2Frun%2Fa,%2Frun%2Fb/db').map(({ host }) => host)).toEqual(['/run/a', '/run/b'])
  })

  it.each([
    ['postgres://u:hunter2@a,/db', 'joined by commas'],
    ['postgres://u:hunter2@a:5432,b:x/db', 'joined by commas'],
    ['postgres://u:hunter2@a,b:70000/db', 'joined by commas'],
    ['postgres://u:hunter2@a,b/db?target_session_attrs=standby', 'must be read-write'],
    ['postgres://u:hunter2@a,b/db?host=c', 'leave out its parameters host and port'],
  ])('%s is refused without showing its password', (url, reason) => {
    expect(() => parseHosts(url)).toThrow(reason)
    expect(() => parseHosts(url)).not.toThrow('hunter2')
  })

  it('with one host is left to the driver', () => {
    const url = 'postgres://u:p@one:5432/db?sslmode=disable'
    expect(connectionTo(url)).toEqual({ connectionString: url })
  })

  it.each(['sslmode=verify-full', 'sslmode=no-verify&application_name=x', 'ssl=true'])(
    'compares certificates with each of its hosts under %s',
    (parameters) => {
      const { connectionString, ssl } = connectionTo(`postgres://u@one.example,two.example/db?${parameters}`)
      expect(connectionString).not.toMatch(/ssl/)
      if (typeof ssl !== 'object') throw new Error('not encrypted')
      const certificate = (name: string) => ({ subject: { CN: name }, subjectaltname: `DNS:${name}` }) as never
      expect(ssl.checkServerIdentity?.('one.example', certificate('two.example'))).toBeUndefined()
      expect(ssl.checkServerIdentity?.('one.example', certificate('three.example'))).toBeInstanceOf(Error)
    },
  )
})

describe('the choice of a host', () => {
  const hosts = ['a', 'b', 'c'].map((host): PostgresHost => ({ host, port: 1, url: host }))

  it('begins with the last chosen host, and concurrent callers share it', async () => {
    const asked: string[] = []
    let primary = 'b'
    const choose = chooseHost(hosts, async ({ host }) => {
      asked.push(host)
      if (host === 'a') throw new Error('down')
      return host === primary
    })
    expect((await Promise.all([choose(), choose()])).map(({ host }) => host)).toEqual(['b', 'b'])
    expect((await choose()).host).toBe('b')
    primary = 'c'
    expect((await choose()).host).toBe('c')
    expect(asked).toEqual(['a', 'b', 'b', 'b', 'a', 'c'])
  })

  it('reports for each host why it was not chosen', async () => {
    const choose = chooseHost(hosts.slice(0, 2), async ({ host }) => {
      if (host === 'a') throw new Error('connection refused')
      return false
    })
    await expect(choose()).rejects.toThrow('(a:1: connection refused; b:1 accepts no writes)')
  })
})

it('every connection finds the primary, and the standby after it is promoted', async () => {
  await using pair = await postgresPair()
  const { primary, standby } = pair
  const hosts = `127.0.0.1:${standby.port},127.0.0.1:${primary.port}`
  const url = `postgres://admin:an%20administrator@${hosts}/postgres?target_session_attrs=read-write`
  const connection = connectionTo(url)
  const handle = openDatabase({ ...connection, max: 3 }, logger)
  let listening = 0
  const heard: string[] = []
  const listener = listen({
    connection,
    logger,
    channels: { news: (payload) => void heard.push(payload) },
    onListening: () => {
      listening += 1
    },
  })
  try {
    await expect.poll(() => listening).toBe(1)
    const portNow = async () => Number((await handle.pool.query('show port')).rows[0].port)
    expect(await portNow()).toBe(primary.port)
    await handle.pool.query('create table kept (id integer); insert into kept values (1)')

    await primary.stop()
    await expect(handle.pool.query('select 1')).rejects.toThrow(/No host of DATABASE_URL accepts writes|terminat|reset/)
    await standby.query('select pg_promote()')
    await expect.poll(() => portNow().catch(() => undefined)).toBe(standby.port)
    expect((await handle.pool.query('select id from kept')).rows).toEqual([{ id: 1 }])
    await expect.poll(() => listening).toBeGreaterThan(1)
    await expect
      .poll(async () => {
        await handle.pool.query("select pg_notify('news', 'promoted')")
        return heard.includes('promoted')
      })
      .toBe(true)
    await using single = Object.assign(new Client(connection), {
      [Symbol.asyncDispose]: () => single.end(),
    })
    await single.connect()
    expect((await single.query('show port')).rows).toEqual([{ port: String(standby.port) }])
  } finally {
    await listener.stop()
    await handle.close()
  }
})

it('a server continues at the promoted standby, with all of its data', async () => {
  await using pair = await postgresPair()
  const { primary, standby } = pair
  await using directory = await temporaryDirectory()
  const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`
  const environment = { DATABASE_URL: `postgres://admin:an%20administrator@${hosts}/postgres` }
  await using server = await serverProcess(directory.path, environment)
  const made = await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', directory.path], environment)
  const client = server.clientFor(made.stdout.match(/fl_\w+/)?.[0] ?? made.stderr)
  const project = await client.projects.create({ body: { name: 'kept' } })

  await primary.stop()
  await standby.query('select pg_promote()')
  const names = async () => (await client.projects.list().catch(() => ({ projects: [] }))).projects.map(({ id }) => id)
  await expect.poll(names).toEqual([project.id])
  await expect
    .poll(() =>
      client.projects.create({ body: { name: 'new' } }).then(
        () => true,
        () => false,
      ),
    )
    .toBe(true)
})

it('a server reports why it cannot use any of the hosts', async () => {
  await using directory = await temporaryDirectory()
  const [one, two] = [await freePort(), await freePort()]
  const result = await fairlead(['keys', 'list', '--data-dir', directory.path], {
    DATABASE_URL: `postgres://u:hunter2@127.0.0.1:${one},127.0.0.1:${two}/db`,
  })
  expect(result.stderr).toContain(`127.0.0.1:${one}: connect ECONNREFUSED`)
  expect(result.stderr).not.toContain('hunter2')
})
