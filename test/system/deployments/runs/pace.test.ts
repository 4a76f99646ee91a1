import { once } from 'node:events'
import { expect, it } from 'vitest'
import { serverWithProject } from '../../../harness/project.ts'
import { startRun } from '../../../harness/runs.ts'

it('waits with its output while its client asks for a pause, and loses none of it', async () => {
  await using given = await serverWithProject()
  await given.deploy('a')
  const { id } = await given.appNamed('a')
  const run = await startRun(given, id, ['node', '-e', 'process.stdout.write("x".repeat(20_000_000))'])
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
