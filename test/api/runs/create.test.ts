import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, withKey } from '../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { connectRun, startRun } from '../../harness/runs.ts'

let given: ServerWithProject
let app: string
beforeAll(async () => {
  given = await serverWithProject()
  await given.deploy('a')
  app = (await given.appNamed('a')).id
})
afterAll(() => given?.[Symbol.asyncDispose]())

const params = () => ({ project_id: given.projectId, app_id: app })
const create = (command: string[]) => given.client.runs.create({ params: params(), body: { command } })

describe('POST /projects/:project_id/apps/:app_id/runs', () => {
  it('runs the command beside the app: its input, its output, its variables and its status', async () => {
    const code =
      'process.stdin.on("data", d => console.log("got", String(d).trim(), process.env.NODE_ENV)).on("end", () => { console.error("bye"); process.exit(7) })'
    const run = await startRun(given, app, ['node', '-e', code])
    run.write('hello')
    run.send({ type: 'end' })
    expect(await run.ended).toEqual({ type: 'exit', code: 7, signal: null, problem: null })
    expect(run.printed).toEqual({ output: 'got hello production\n', errors: 'bye\n' })
    const { serving } = await given.appNamed('a')
    expect(await run.read()).toMatchObject({
      status: 'failed',
      exit_code: 7,
      deployment_id: serving?.id,
      terminal: false,
    })
  })

  it('records who ran which command of which app in the audit log', async () => {
    const { id } = await create(['ls', '-l'])
    const browser = await given.server.signIn()
    const { entries } = await browser.client.auditLog.list()
    const details = { app_id: app, command: ['ls', '-l'] }
    const entry = entries.find(({ resource_id }) => resource_id === id)
    expect(entry).toMatchObject({ operation: 'runs.create', actor: { type: 'key' }, details })
  })

  it('keeps the beginning of a long command in the audit log', async () => {
    const { id } = await create(['echo', `${'a'.repeat(1_995)}\u{1f600}${'b'.repeat(30_000)}`])
    const browser = await given.server.signIn()
    const { entries } = await browser.client.auditLog.list()
    const entry = entries.find(({ resource_id }) => resource_id === id)
    expect(entry?.details).toMatchObject({ command: ['echo', `${'a'.repeat(1_995)}\ufffd…`] })
  })

  it('ends the command when its client is gone', async () => {
    const run = await startRun(given, app, ['node', '-e', 'console.log("up"); setInterval(() => 0, 1000)'])
    await expect.poll(() => run.printed.output).toBe('up\n')
    run.socket.terminate()
    await expect.poll(async () => (await run.read()).status).toBe('canceled')
    expect((await run.read()).problem).toBe('Its client has disconnected.')
  })

  it('lets one client connect with a ticket, once', async () => {
    const { connect } = await create(['true'])
    const first = await connectRun(given.server.url, connect)
    await expect(connectRun(given.server.url, connect)).rejects.toThrow('403')
    await expect(connectRun(given.server.url, { ...connect, ticket: 'x'.repeat(43) })).rejects.toThrow('403')
    await expect(connectRun(given.server.url, { ...connect, ticket: 'short' })).rejects.toThrow('400')
    expect(await first.ended).toMatchObject({ code: 0 })
  })

  it('reports a missing command with the status of a shell', async () => {
    const run = await startRun(given, app, ['nothing-of-this-name'])
    expect(await run.ended).toMatchObject({ code: 127, problem: null })
    expect(run.printed.errors).toContain('nothing-of-this-name: command not found')
  })

  it('refuses a command without a program', async () => {
    for (const command of [[], [''], ['a\0b'], Array(201).fill('a')]) {
      const answer = await ask(withKey(given.server, given.server.apiKey), 'runs.create', params(), { command })
      expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('command')])
    }
  })

  it('needs the permission to change deployments', async () => {
    const reader = given.server.clientFor(await given.server.key({ preset: 'read' }))
    const refused = reader.runs.create({ params: params(), body: { command: ['true'] } })
    await expect(refused).rejects.toMatchObject({ code: 'forbidden' })
  })

  it('answers the same 404 as for an app that never existed', async () => {
    await expectNotFound(given.server, 'runs.create', params())
  })
})
