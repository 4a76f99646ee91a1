import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { startRun } from '../../harness/runs.ts'

let given: ServerWithProject
let app: string
beforeAll(async () => {
  given = await serverWithProject()
  await given.deploy('a')
  app = (await given.appNamed('a')).id
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)
const paramsOf = (id: string) => ({ project_id: given.projectId, app_id: app, id })

describe('POST /projects/:project_id/apps/:app_id/runs/:id/cancel', () => {
  it('ends a running command with a connected client', async () => {
    const run = await startRun(given, app, ['node', '-e', 'console.log("up"); setInterval(() => 0, 1000)'])
    await expect.poll(() => run.printed.output).toBe('up\n')
    await expectNotFound(given.server, 'runs.cancel', paramsOf(run.id))
    await succeed(caller(), 'runs.cancel', paramsOf(run.id))
    expect(await run.ended).toMatchObject({ problem: 'It was canceled.' })
    const ended = await run.read()
    expect(ended).toMatchObject({ status: 'canceled', problem: 'It was canceled.' })
    // A command that has ended stays unchanged.
    expect(await succeed(caller(), 'runs.cancel', paramsOf(run.id))).toEqual({ ...ended, output: undefined })
  })

  it('cancels a command that waits for its client', async () => {
    const params = { project_id: given.projectId, app_id: app }
    const { id } = await given.client.runs.create({ params, body: { command: ['true'] } })
    expect(await succeed(caller(), 'runs.cancel', paramsOf(id))).toMatchObject({ status: 'canceled' })
  })
})
