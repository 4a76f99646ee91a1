import { expect, test } from 'vitest'
import { nodeApp } from '../../harness/repository.ts'
import { workflow } from './harness.ts'

test('a rerun of the same attempt deploys once, and the next attempt again', async () => {
  await using at = await workflow()
  const commit = await at.push('main', nodeApp('once'))
  const run = (GITHUB_RUN_ATTEMPT: string) =>
    at.deploy('main', commit, {
      env: { GITHUB_RUN_ID: '7', GITHUB_RUN_ATTEMPT, GITHUB_JOB: 'deploy', GITHUB_ACTION: '__self' },
    })
  const first = await run('1')
  const again = await run('1')
  const next = await run('2')
  expect(first).toMatchObject({ code: 0, outputs: { status: 'running' } })
  expect(again).toMatchObject({ code: 0, outputs: { 'deployment-id': first.outputs['deployment-id'] } })
  expect(next.outputs['deployment-id']).not.toBe(first.outputs['deployment-id'])
  const { deployments } = await at.server.client.deployments.list({ params: { project_id: at.projectId } })
  expect(deployments).toHaveLength(2)
})
