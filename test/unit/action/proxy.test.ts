import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { expect, test } from 'vitest'
import { created, KEY, logOf, PROJECT, scriptedServer, seen } from '../../harness/action/support.ts'
import { runAction } from '../../harness/run-action.ts'

/** Starts a proxy that requires a password and resolves one host name, which has no DNS record. */
async function proxy(name: string, port: number) {
  const asked: string[] = []
  const server = createServer((_, response) => response.writeHead(405).end())
  server.on('connect', (request, client, head) => {
    asked.push(request.url ?? '')
    const expected = `Basic ${Buffer.from('user:p@ss').toString('base64')}`
    if (request.headers['proxy-authorization'] !== expected || request.url?.split(':')[0] !== name) {
      client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
      return
    }
    const upstream = connect(port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      upstream.write(head)
      upstream.pipe(client).pipe(upstream)
    })
    for (const socket of [client, upstream]) socket.on('error', () => client.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://user:p%40ss@127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

const host = 'fairlead.test'

test.each(['http_proxy', 'HTTP_PROXY'])('everything goes through the proxy of %s', async (variable) => {
  await using server = await scriptedServer({ create: created, log: logOf(['built']), polls: seen('running') })
  await using via = await proxy(host, server.port)
  const inputs = { 'api-url': `http://${host}`, 'api-key': KEY, 'project-id': PROJECT }
  const result = await runAction({ inputs, env: { [variable]: via.url } })
  expect(result).toMatchObject({ code: 0, stderr: '', outputs: { status: 'running' } })
  expect(result.stdout).toContain('\nbuilt\n')
  expect(new Set(via.asked)).toEqual(new Set([`${host}:80`]))
  expect(server.requests.map(({ headers }) => headers.host)).toEqual([host, host, host])
})

test('https goes through the proxy of https_proxy', async () => {
  await using via = await proxy('elsewhere.test', 1)
  const inputs = { 'api-url': `https://${host}`, 'api-key': KEY, 'project-id': PROJECT, timeout: '3' }
  const result = await runAction({ inputs, env: { https_proxy: via.url } })
  expect(result.code).toBe(1)
  expect(via.asked).toContain(`${host}:443`)
})

test('no_proxy is obeyed', async () => {
  await using server = await scriptedServer({ create: created, polls: seen('running') })
  await using via = await proxy(host, server.port)
  const inputs = { 'api-url': server.url, 'api-key': KEY, 'project-id': PROJECT }
  const result = await runAction({ inputs, env: { http_proxy: via.url, no_proxy: '127.0.0.1' } })
  expect(result).toMatchObject({ code: 0, outputs: { status: 'running' } })
  expect(via.asked).toEqual([])
})
