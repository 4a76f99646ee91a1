import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { processesOf } from '../../harness/deployments.ts'
import { processesGone, type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { startRun } from '../../harness/runs.ts'

let given: ServerWithProject
let app: string
let release: string
beforeAll(async () => {
  given = await serverWithProject()
  release = (await given.deploy('a')).id
  app = (await given.appNamed('a')).id
})
afterAll(() => given?.[Symbol.asyncDispose]())

const endless = ['node', '-e', 'console.log("up"); setInterval(() => 0, 1000)']

it.each([
  ['without a terminal', undefined],
  ['in a terminal', { columns: 80, rows: 24 }],
])('a command %s leaves no process when its key is revoked', async (_, terminal) => {
  const user = await given.server.signIn()
  const { id, key } = await user.client.apiKeys.create({ body: { name: 'runner', preset: 'full' } })
  const before = await processesOf(release)
  const run = await startRun({ ...given, client: given.server.clientFor(key) }, app, endless, terminal)
  await expect.poll(() => run.printed.output).toContain('up')
  expect((await processesOf(release)).length).toBeGreaterThan(before.length)
  await user.client.apiKeys.delete({ params: { id } })
  expect(await run.ended).toMatchObject({ problem: 'The key or the session that began it has ended.' })
  await expect.poll(() => processesOf(release)).toEqual(before)
})

it('a command’s output in a terminal is not stored', async () => {
  const shell = await startRun(given, app, ['node', '-e', 'console.log("shown")'], { columns: 80, rows: 24 })
  await shell.ended
  expect(shell.printed.output).toContain('shown')
  expect(await shell.read()).toMatchObject({ status: 'succeeded', output: null })
})

it('a command waits with its output while its client requests a pause, and loses none of it', async () => {
  const run = await startRun(given, app, ['node', '-e', 'process.stdout.write("x".repeat(20_000_000))'])
  run.send({ type: 'pause' })
  // The server answers once it has read the pause.
  for (let round = 0; round < 50; round += 1) {
    run.socket.ping()
    await once(run.socket, 'pong')
  }
  await expect.poll(async () => (await run.read()).status).toBe('running')
  expect(run.printed.output.length).toBeLessThan(1_000_000)
  run.send({ type: 'resume' })
  expect(await run.ended).toMatchObject({ code: 0, problem: null })
  expect(run.printed.output).toHaveLength(20_000_000)
})

describe('a command of a stopped app', () => {
  it.each([
    ['ends by itself', ['node', '-e', 'console.log("up")'], false],
    ['loses its client', endless, true],
  ])('leaves no process when it %s', async (_, command, isLeft) => {
    await given.client.deployments.stop(given.paramsOf(release))
    await processesGone(release)
    const run = await startRun(given, app, command)
    await expect.poll(() => run.printed.output).toBe('up\n')
    if (isLeft) run.socket.terminate()
    await processesGone(release)
  })
})
