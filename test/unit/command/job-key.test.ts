import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { withJobKey } from '../../../server/src/commands/client/job-key.ts'

it('a job gets another key before the first expires, and ends all of its keys', async () => {
  const made: string[] = []
  const ended: string[] = []
  const another = Promise.withResolvers<void>()
  const server = createServer((request, response) => {
    if (request.method === 'DELETE') {
      ended.push(String(request.headers.authorization).replace('Bearer ', ''))
      return void response.writeHead(204).end()
    }
    const key = `fl_${made.length + 1}`
    made.push(key)
    // Without a date, this machine's clock measures the lifetime.
    response.sendDate = false
    response.writeHead(201, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ api_key: key, expires_at: new Date(Date.now() + 500).toISOString() }))
    if (made.length === 2) response.on('close', another.resolve)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const tokens = Array.from({ length: 100 }, (_, at) => `token.number.${at}`)
  const job = {
    ci: 'A CI',
    branch: null,
    repository: null,
    baseUrl,
    tokens: { kind: 'given', tokens, missing: '' },
  } as const
  await withJobKey(job, 'proj_01h455vb4pex5vsknk084sn02q', async ({ apiKey }) => {
    expect(apiKey).toBe('fl_1')
    await another.promise
  })
  expect(made.length).toBeGreaterThan(1)
  expect(ended.toSorted()).toEqual(made.toSorted())
  server.close()
  server.closeAllConnections()
})
