import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { type ServerWithVariables, seenBy, serverWithVariables } from '../../harness/variables.ts'

let given: ServerWithVariables
beforeAll(async () => {
  given = await serverWithVariables()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const none = { added: [], changed: [], removed: [] }

describe('PATCH /projects/:project_id/apps/:app_id/variables', () => {
  const update = (params: { project_id: string; app_id: string }, body: object) =>
    given.client.variables.update({ params, body })

  it('sets, changes and removes variables, which further releases have and the current release lacks', async () => {
    const app = await given.app('web')
    await succeed(caller(), 'variables.update', app.params, { set: { OWN_A: '1', OWN_B: '2' } })
    expect(await seenBy(app)).toEqual({ version: 'first' })
    await given.deploy('web')
    expect(await seenBy(app)).toEqual({ OWN_A: '1', OWN_B: '2', version: 'first' })
    const state = await update(app.params, { set: { OWN_A: 'changed', OWN_C: '' }, unset: ['OWN_B'] })
    expect(state.pending).toEqual({ added: ['OWN_C'], changed: ['OWN_A'], removed: ['OWN_B'] })
    expect((await given.apply(app)).env_var_names).toEqual(['OWN_A', 'OWN_C'])
    expect(await seenBy(app)).toEqual({ OWN_A: 'changed', OWN_C: '', version: 'first' })
    expect((await given.client.variables.list({ params: app.params })).pending).toEqual(none)
    await expectNotFound(given.server, 'variables.update', app.params)
  })

  it('reads a dotenv file, and names the wrong line', async () => {
    const { params } = await given.app('imported')
    const dotenv = '# settings\nexport OWN_A="one\\ntwo"\nOWN_B=2 # two\n'
    await update(params, { dotenv, set: { OWN_B: 'of set' }, kind: 'plain' })
    const { variables } = await given.client.variables.list({ params })
    expect(variables.map(({ name, value }) => [name, value])).toEqual([
      ['OWN_A', 'one\ntwo'],
      ['OWN_B', 'of set'],
    ])
    const wrong = update(params, { dotenv: 'OWN_C=3\nno assignment' })
    await expect(wrong).rejects.toMatchObject({
      details: { field: 'dotenv', errors: [{ message: expect.stringMatching(/^line 2: /) }] },
    })
    await expect(update(params, { dotenv: 'PORT=80' })).rejects.toMatchObject({ details: { field: 'dotenv.PORT' } })
  })

  it('keeps the kind of a variable by default', async () => {
    const { params } = await given.app('kinds')
    const kinds = async () =>
      (await given.client.variables.list({ params })).variables.map(({ kind, value }) => [kind, value])
    await update(params, { set: { OWN_A: 'one' }, kind: 'plain' })
    await update(params, { set: { OWN_A: 'two', OWN_B: 'new' } })
    expect(await kinds()).toEqual([
      ['plain', 'two'],
      ['secret', null],
    ])
    await update(params, { set: { OWN_A: 'three' }, kind: 'secret' })
    expect((await kinds())[0]).toEqual(['secret', null])
  })

  it('refuses reserved and malformed names, unknown ones to remove, and more than 200', async () => {
    const { params } = await given.app('strict')
    const refused = (body: object, field: string) =>
      expect(update(params, body)).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
    await refused({ set: { PORT: '80' } }, 'set.PORT')
    await refused({ set: { 'not a name': '' } }, 'set.not a name')
    await refused({ set: { OWN_A: 'a\0b' } }, 'set.OWN_A')
    await refused({ unset: ['OWN_A'] }, 'unset.0')
    await refused({ set: { OWN_A: '' }, unset: ['OWN_A'] }, 'unset.0')
    const many = (letter: string, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`OWN_${letter}${at}`, `${at}`]))
    await update(params, { set: many('A', 150) })
    await refused({ set: many('B', 51) }, 'set')
    expect((await given.client.variables.list({ params })).variables).toHaveLength(150)
    const deployed = given.deploy('strict', { env_vars: many('C', 51) })
    await expect(deployed).rejects.toMatchObject({ details: { field: 'env_vars' } })
  })

  it('hides secret values from another source that a key deploys, or copies them to', async () => {
    await using other = await repository(nodeApp('I read everything'))
    const app = await given.app('guarded')
    await update(app.params, { set: { OWN_A: 'for everybody' }, kind: 'plain' })
    await given.deploy('guarded', { git_url: other.url })
    await given.deploy('guarded')
    await update(app.params, { set: { OWN_B: 'secret' } })
    const refused = (request: Promise<unknown>, field: string) =>
      expect(request).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
    for (const env_vars_for of ['app', 'release'] as const) {
      await refused(given.deploy('guarded', { git_url: other.url, env_vars_for }), 'git_url')
    }
    const spy = await given.app('spy', { git_url: other.url })
    await refused(given.client.variables.copy({ params: spy.params, body: { from: app.id } }), 'from')
    await given.client.variables.copy({ params: spy.params, body: { from: app.id, names: ['OWN_A'] } })
    // A person may move an app.
    const { client } = await given.server.signIn()
    const body = { name: 'guarded', git_url: other.url }
    const moved = await client.deployments.create({ params: { project_id: given.projectId }, body })
    expect((await given.end(moved.id)).env_var_names).toEqual(['OWN_A', 'OWN_B'])
  })

  it('records the app without values in the audit log, and logs mask only secrets', async () => {
    const app = await given.app('logged')
    await update(app.params, { set: { OWN_SECRET: 'hidden from all logs' } })
    await update(app.params, { set: { OWN_PLAIN: 'may be seen by readers' }, kind: 'plain' })
    const { id } = await given.apply(app)
    const params = { project_id: given.projectId, id }
    const read = async () => (await given.client.deployments.logs({ params, query: { stream: 'runtime' } })).text()
    await expect.poll(read).toContain('my variables')
    const log = await read()
    expect(log).toContain('may be seen by readers')
    expect(log).not.toContain('hidden from all logs')
    const entries = await given.server.database.query<{ resource_id: string }>(
      "select * from audit_entries where operation = 'variables.update' and resource_id = $1",
      [app.id],
    )
    expect(entries).toHaveLength(2)
    expect(JSON.stringify(entries)).not.toContain('hidden from all logs')
  })
})
