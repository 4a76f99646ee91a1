import { expect, it } from 'vitest'
import { connect, createdDatabase, query } from '../../harness/databases.ts'
import { postgresByHand } from '../../harness/postgres-by-hand.ts'
import { fairlead, serverProcess } from '../../harness/process.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

it("users' roles cannot connect to the state database on the same PostgreSQL server", async () => {
  await using operator = await postgresByHand()
  await operator.query('create database state')
  const address = new URL(operator.url)
  address.pathname = '/state'
  const settings = { DATABASE_URL: address.href, FAIRLEAD_DATABASES_URL: operator.url }
  await using directory = await temporaryDirectory()
  const data = `${directory.path}/data`
  const doctor = () => fairlead(['doctor', '--data-dir', data], settings)
  expect((await doctor()).stdout).toContain('open to every role')
  const { stdout: key } = await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data], settings)
  await using server = await serverProcess(data, settings)
  const client = server.clientFor(key.trim())
  const { id: project } = await client.projects.create({ body: { name: 'p' } })
  const { connection_string } = await createdDatabase(client, project)
  expect(await query(connection_string, 'select 1')).toEqual([[1]])
  const intruder = new URL(connection_string)
  intruder.pathname = '/state'
  await expect(connect(intruder.href)).rejects.toMatchObject({ code: '42501' })
  expect((await doctor()).stdout).toContain('closed to roles without a grant')
})

it('another owner’s state database stays unchanged, and the log says what to do', async () => {
  await using operator = await postgresByHand()
  await operator.query("create role guest login password 'guest'")
  await operator.query('create database state')
  const address = new URL(operator.url)
  address.pathname = '/state'
  await operator.query('grant all on database state to guest')
  {
    await using administrator = await connect(address.href)
    await administrator.query('grant all on schema public to guest')
  }
  address.username = 'guest'
  address.password = 'guest'
  await using directory = await temporaryDirectory()
  await using server = await serverProcess(`${directory.path}/data`, { DATABASE_URL: address.href })
  await server.waitForLog(
    ({ level, msg }) => level === 40 && String(msg).includes('revoke connect, temporary on database state from public'),
  )
})
