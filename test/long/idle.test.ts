import { join } from 'node:path'
import { expect, it } from 'vitest'
import { pidIsTaken } from '../../server/src/platform/processes.ts'
import { deployAndSettle, processesOf } from '../harness/deployments.ts'
import { fairlead, serverProcess } from '../harness/process.ts'
import { nodeApp, repository } from '../harness/repository.ts'
import { temporaryDirectory } from '../harness/temporary.ts'

it('a server restarts an app soon after a kill of its processes', async () => {
  await using directory = await temporaryDirectory()
  // A static site has no process.
  await using source = await repository(nodeApp('hello'))
  const data = join(directory.path, 'data')
  const apiKey = (await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])).stdout.trim()
  await using server = await serverProcess(data)
  const client = server.clientFor(apiKey)
  const project = await client.projects.create({ body: { name: 'killed' } })
  const first = await deployAndSettle(client, project.id, { name: 'first', git_url: source.url })
  const pids = await processesOf(first.id)
  expect(pids).not.toEqual([])
  for (const pid of pids) if (pidIsTaken(pid)) process.kill(pid, 'SIGKILL')
  await server.waitForLog((line) => line['msg'] === 'starting the release again' && line['deployment'] === first.id)
  await expect.poll(async () => (await fetch(first.url)).status).toBe(200)
})
