import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { createProbe } from '../../../server/src/features/domains/checks/probe.ts'
import { freePort } from '../../harness/ports.ts'

const never = new AbortController().signal

/** Answers on a port of this machine until it is disposed of. */
async function answering(listener: RequestListener) {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const probe = (...ports: readonly number[]) => createProbe({ text: async () => 'this server', ports })

it('a response with the text at the path, for the host, comes from this server', async () => {
  const asked: unknown[] = []
  await using server = await answering((request, response) => {
    asked.push([request.method, request.headers.host, request.url])
    response.end('this server')
  })
  expect(await probe(server.port)('shop.example.com', '127.0.0.1', never)).toEqual({ outcome: 'reached' })
  expect(asked).toEqual([['GET', 'shop.example.com', '/.well-known/fairlead/probe']])
})

it('status and headers identify another server', async () => {
  await using server = await answering((_request, response) => {
    response.writeHead(301, { location: 'https://elsewhere.example.com/', server: 'nginx' }).end()
  })
  expect(await probe(server.port)('shop.example.com', '127.0.0.1', never)).toMatchObject({
    outcome: 'other',
    status: 301,
    headers: { location: 'https://elsewhere.example.com/', server: 'nginx' },
  })
})

it('an endless response comes from another server, and is not read to the end', async () => {
  await using server = await answering((_request, response) => {
    const more = setInterval(() => response.write('x'.repeat(1000)), 5)
    response.once('close', () => clearInterval(more))
  })
  expect(await probe(server.port)('shop.example.com', '127.0.0.1', never)).toMatchObject({
    outcome: 'other',
    status: 200,
  })
})

it('a port without a listener leads to the next port', async () => {
  const gone = await freePort()
  expect(await probe(gone)('shop.example.com', '127.0.0.1', never)).toEqual({
    ...{ outcome: 'unreachable', reason: 'refused' },
  })
  await using server = await answering((_request, response) => void response.end('this server\n'))
  expect(await probe(gone, server.port)('shop.example.com', '127.0.0.1', never)).toEqual({ outcome: 'reached' })
})

it('a response without HTTP counts as unreachable', async () => {
  await using server = await answering((request) => void request.socket.end('SSH-2.0-OpenSSH\r\n'))
  expect(await probe(server.port)('shop.example.com', '127.0.0.1', never)).toEqual({
    ...{ outcome: 'unreachable', reason: 'failed' },
  })
})

it('rejects when the check is aborted', async () => {
  await using server = await answering(() => undefined)
  const stop = new AbortController()
  const asked = probe(server.port)('shop.example.com', '127.0.0.1', stop.signal)
  stop.abort(new Error('given up'))
  await expect(asked).rejects.toThrow('given up')
})
