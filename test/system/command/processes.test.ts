import { expect, it } from 'vitest'
import { fairlead } from '../../harness/process.ts'
import { serverWithProject } from '../../harness/project.ts'
import { replicatedApp } from '../../harness/replicas.ts'

it('scale sets numbers of instances, and ps lists what runs', { timeout: 120_000 }, async () => {
  await using given = await serverWithProject()
  await using source = await replicatedApp()
  await given.deploy('shop', source.url)
  const environment = { FAIRLEAD_URL: given.server.url, FAIRLEAD_API_KEY: given.server.apiKey }
  const run = (...args: string[]) => fairlead(args, environment)
  expect((await run('ps', 'shop')).stdout).toMatch(
    /^web: 1 × 4000 MB, 4 CPU: .*node server\.js.*\n {2}web\.1 running\nworker: 0 × /,
  )
  expect(await run('scale', 'shop', 'web=2', 'worker=1')).toMatchObject({ code: 0 })
  await expect
    .poll(async () => (await run('ps', 'shop')).stdout, { timeout: 60_000, interval: 500 })
    .toMatch(/web\.2 running since [\s\S]*worker\.1 running since /)
  const back = await run('scale', 'shop', 'web=default', 'worker=0', '--json')
  expect(JSON.parse(back.stdout).processes).toMatchObject([{ asked: null }, { instances: 0 }])
  expect(await run('scale', 'shop', 'web')).toMatchObject({ code: 1, stderr: expect.stringContaining('such as web=3') })
  expect((await run('scale', 'shop', 'mail=1')).stderr).toContain(
    'is no process type of this app, which has: web, worker',
  )
})
