import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { keyByApproval } from '../../../server/src/commands/client/login.ts'

const code = {
  device_code: 'secret',
  user_code: 'BCDF-GHJK',
  verification_uri: 'http://fairlead.example/device',
  verification_uri_complete: 'http://fairlead.example/device#BCDF-GHJK',
  expires_in: 600,
  interval: 5,
}
const refused = (reason: string) => (response: ServerResponse) => {
  const error = { code: 'invalid_request', message: 'No.', details: { reason } }
  response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ error }))
}
const key = (response: ServerResponse) => void response.end('{"api_key":"fl_1"}')
const closed = (response: ServerResponse) => void response.destroy()
const cut = (response: ServerResponse) => {
  response.writeHead(200, { 'content-length': '100' }).write('{"api_')
  setImmediate(() => response.destroy())
}

/** Logs in at a server that gives these answers in order. Resolves to the key and the pauses between the requests. */
async function logIn(...answers: ((response: ServerResponse) => void)[]) {
  const server = createServer((request, response) => {
    if (request.url === '/device/code') return void response.end(JSON.stringify(code))
    answers.shift()?.(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const pauses: number[] = []
  const pause = async (ms: number) => pauses.push(ms)
  try {
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
    return { key: await keyByApproval(baseUrl, pause), pauses }
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

it('a login continues after truncated or missing answers, and polls less often', async () => {
  const given = await logIn(refused('authorization_pending'), cut, closed, refused('slow_down'), key)
  expect(given).toEqual({ key: 'fl_1', pauses: [5_000, 5_000, 10_000, 15_000, 20_000] })
})

it('a login whose key was in a lost answer says which key to revoke', async () => {
  await expect(logIn(cut, refused('expired_token'))).rejects.toThrow(
    /answer of the server was lost.*revoke "fairlead login on /,
  )
})

it('an unapproved login reports its end', async () => {
  await expect(logIn(refused('expired_token'))).rejects.toThrow('nobody approved the login in time')
})
