import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { followLog } from '../../harness/logs.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

it('a flood of 100,000 lines reaches ten followers without a loss and without being buffered in memory', async () => {
  await using flooder = await repository({
    'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
    'server.js': `require('node:http').createServer((request, response) => {
  if (request.url === '/flood') for (let n = 0; n < 100000; n += 1) console.log('line ' + n + ' ' + 'x'.repeat(60))
  response.end()
}).listen(process.env.PORT)`,
  })
  const made = await given.deploy('flood', flooder.url)
  const follow = (headers: Record<string, string>, id: string) => followLog(given.client, given.projectId, id, headers)
  const idle = await follow({ 'last-event-id': '0-0' }, made.id)
  const followers = await Promise.all(Array.from({ length: 10 }, () => follow({ 'last-event-id': '0-0' }, made.id)))
  const before = memoryInUse()
  await (await fetch(`${made.url}/flood`)).text()
  let most = 0
  await Promise.all(
    followers.map(async (follower, index) => {
      for (let expected = 0; expected < 100_000; ) {
        const text = String((await follower.next()).data['text'])
        if (!text.startsWith('line ')) continue
        if (text !== `line ${expected} ${'x'.repeat(60)}`) throw new Error(`${text} in place of ${expected}`)
        expected += 1
        if (index === 0 && expected % 20_000 === 0) most = Math.max(most, memoryInUse())
      }
    }),
  )
  for (const follower of [...followers, idle]) follower.close()
  // Over 100 MB passed. Server and followers, all in this process, held a small part at any time.
  expect(most - before).toBeLessThan(32 * 1024 * 1024)
})

/** Returns the bytes in use after a garbage collection. */
function memoryInUse(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
