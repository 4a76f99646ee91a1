import { describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { serverWithProject } from '../../harness/project.ts'
import { startRun } from '../../harness/runs.ts'

describe('GET /projects/:project_id/apps/:app_id/runs/:id', () => {
  it('reads one run, without its ticket', async () => {
    await using given = await serverWithProject()
    const params = { project_id: given.projectId, app_id: await given.appRow() }
    const { id } = await given.client.runs.create({ params, body: { command: ['echo', 'hi'] } })
    const caller = withKey(given.server, given.server.apiKey)
    const read = await succeed(caller, 'runs.get', { ...params, id })
    expect(read).toMatchObject({ id, command: ['echo', 'hi'], status: 'waiting', output: null, exit_code: null })
    await expectNotFound(given.server, 'runs.get', { ...params, id })
  })

  it('has the end of a one-off command’s output, masked, for keys that may run commands', async () => {
    await using given = await serverWithProject()
    const secret = 'correct-horse-battery-staple'
    const body = { name: 'a', git_url: given.source.url, env_vars: { SECRET: secret } }
    await given.end((await given.client.deployments.create({ params: { project_id: given.projectId }, body })).id)
    const app_id = (await given.appNamed('a')).id
    const code = 'console.log("says " + process.env.SECRET); console.error("and ends"); process.exit(3)'
    const run = await startRun(given, app_id, ['node', '-e', code])
    await run.ended
    const { output } = await run.read()
    expect(output?.split('\n').sort()).toEqual(['', 'and ends', 'says ***'])
    expect(run.printed.output).toBe(`says ${secret}\n`)

    const params = { project_id: given.projectId, app_id, id: run.id }
    const reader = withKey(given.server, await given.server.key({ preset: 'read' }))
    expect(await succeed(reader, 'runs.get', params)).toMatchObject({ exit_code: 3, output: null })
  })
})
