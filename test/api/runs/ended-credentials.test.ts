import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createClient } from '../../../server/src/contract/client.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { connectRun, startRun } from '../../harness/runs.ts'
import type { SignedInBrowser } from '../../harness/server.ts'

let given: ServerWithProject
let app: string
let user: SignedInBrowser
beforeAll(async () => {
  given = await serverWithProject()
  await given.deploy('a')
  app = (await given.appNamed('a')).id
  user = await given.server.signIn()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const endless = ['node', '-e', 'console.log("up"); setInterval(() => 0, 1000)']
const reason = 'The key or the session that began it has ended.'
const makeKey = async () => {
  const made = await user.client.apiKeys.create({ body: { name: 'runner', preset: 'full' } })
  return { ...made, client: createClient({ baseUrl: given.server.baseUrl, apiKey: made.key }) }
}
/** Begins a command that does not end by itself, and waits until it runs. */
const begin = async (client: ServerWithProject['client']) => {
  const run = await startRun({ ...given, client }, app, endless)
  await expect.poll(() => run.printed.output).toContain('up')
  return run
}
const statusOf = async (id: string) =>
  (await given.client.runs.get({ params: { project_id: given.projectId, app_id: app, id } })).status

describe('a command', () => {
  it('ends when its key is revoked', async () => {
    const { id, client } = await makeKey()
    const run = await begin(client)
    await user.client.apiKeys.delete({ params: { id } })
    expect(await run.ended).toMatchObject({ problem: reason })
    expect(await statusOf(run.id)).toBe('canceled')
  })

  it('ends when its key expires', async () => {
    const { id, client } = await makeKey()
    const run = await begin(client)
    await given.server.database.query('update api_keys set expires_at = now() where id = $1', [id])
    expect(await run.ended).toMatchObject({ problem: reason })
  })

  it('ends when its user signs out', async () => {
    const other = await given.server.signIn()
    const run = await begin(other.client)
    await other.dashboard.session.delete()
    expect(await run.ended).toMatchObject({ problem: reason })
  })

  it('does not begin with the ticket of a revoked key', async () => {
    const { id, client } = await makeKey()
    const params = { project_id: given.projectId, app_id: app }
    const made = await client.runs.create({ params, body: { command: endless } })
    await user.client.apiKeys.delete({ params: { id } })
    const run = await connectRun(given.server.url, made.connect)
    expect(await run.ended).toMatchObject({ problem: reason })
    expect(run.printed).toEqual({ output: '', errors: '' })
  })

  it('continues when another key or session ends', async () => {
    const run = await begin((await makeKey()).client)
    const key = await makeKey()
    const [ofKey, other] = [await begin(key.client), await given.server.signIn()]
    const ofSession = await begin(other.client)
    await user.client.apiKeys.delete({ params: { id: key.id } })
    await other.dashboard.session.delete()
    // These end by a check of all running commands.
    await Promise.all([ofKey.ended, ofSession.ended])
    expect(await statusOf(run.id)).toBe('running')
    run.socket.terminate()
  })
})
