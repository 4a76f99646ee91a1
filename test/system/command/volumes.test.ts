import { expect, it } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { serverWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'
import { keepingApp } from '../../harness/volumes.ts'

it('volumes lists an app’s volumes, and deletes unused ones', { timeout: 120_000 }, async () => {
  await using given = await serverWithProject()
  await using two = await repository(keepingApp({ data: '/srv/data', old: '/srv/old' }))
  await using one = await repository(keepingApp({ data: '/srv/data' }))
  await given.deploy('shop', two.url)
  await given.deploy('shop', one.url)
  const environment = { FAIRLEAD_URL: given.server.url, FAIRLEAD_API_KEY: given.server.apiKey }
  const run = (...args: string[]) => commandHere(['volumes', ...args], environment)
  expect((await run('list', 'shop')).stdout).toMatch(/^data\t\/srv\/data\t\d+\.\d MB\nold\t\(not used\)\t\d+\.\d MB\n$/)
  expect(await run('delete', 'shop', 'data')).toMatchObject({ code: 1, stderr: expect.stringContaining('is in use') })
  expect(await run('delete', 'shop', 'old')).toMatchObject({ code: 0 })
  expect((await run('list', 'shop')).stdout).toMatch(/^data\t[^\n]*\n$/)
})
