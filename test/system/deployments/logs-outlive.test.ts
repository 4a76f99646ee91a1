import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { followLog } from '../../harness/logs.ts'
import { fairlead, serverProcess } from '../../harness/process.ts'
import { repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/** Returns the path of the file with the times of an app's only log. */
async function timesOf(data: string): Promise<string> {
  const names = await readdir(join(data, 'logs'), { recursive: true })
  return join(data, 'logs', String(names.find((name) => name.endsWith('runtime.times'))))
}

it('the log has every line of an app that outlived its server, and can be followed from any line', async () => {
  await using directory = await temporaryDirectory()
  const data = join(directory.path, 'data')
  const key = (await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])).stdout.trim()
  await using source = await repository({
    'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
    'server.js': `console.log('port ' + process.env.PORT)
require('node:http').createServer((request, response) => {
  if (request.url !== '/') console.log('asked for ' + request.url)
  response.end()
}).listen(process.env.PORT)`,
  })
  const killed = await serverProcess(data)
  const client = killed.clientFor(key)
  const projectId = (await client.projects.create({ body: { name: 'p' } })).id
  const { id, url } = await deployAndSettle(client, projectId, { name: 'web', git_url: source.url })
  await fetch(`${url}/before`)
  const first = await followLog(client, projectId, id)
  const port = await first.until(({ data }) => String(data['text']).startsWith('port '))
  await first.until(({ data }) => data['text'] === 'asked for /before')
  await killed.kill()
  const times = (await stat(await timesOf(data))).size

  // The gateway outlives its server, too.
  for (const path of ['/alone', '/still-alone']) expect((await fetch(url + path)).status).toBe(200)

  await using server = await serverProcess(data, { FAIRLEAD_PORT: new URL(killed.url).port })
  // The new server records from now on.
  await expect.poll(async () => (await stat(await timesOf(data))).size).toBeGreaterThan(times)
  await fetch(`${url}/after`)
  const again = await followLog(server.clientFor(key), projectId, id, { 'last-event-id': port.id })
  const lines = []
  for (let text = ''; text !== 'asked for /after'; ) {
    const { data } = await again.next()
    text = String(data['text'])
    lines.push([text, data['at'] === null ? 'without a time' : 'with its time'])
  }
  again.close()
  expect(lines).toEqual([
    ['asked for /before', 'with its time'],
    ['asked for /alone', 'without a time'],
    ['asked for /still-alone', 'without a time'],
    ['asked for /after', 'with its time'],
  ])
})
