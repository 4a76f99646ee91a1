import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { expect, it } from 'vitest'
import { relay } from '../../harness/relay.ts'

it('a held connection passes everything on after its release', async () => {
  await using cleanup = new AsyncDisposableStack()
  const echo = createServer((socket) => socket.pipe(socket).on('error', () => undefined)).listen(0, '127.0.0.1')
  cleanup.defer(() => void echo.close())
  await once(echo, 'listening')
  const host = '127.0.0.1'
  const between = cleanup.use(await relay({ host, port: (echo.address() as AddressInfo).port }, { host, port: 0 }))
  const client = connect({ host, port: between.port }).setEncoding('utf8')
  cleanup.defer(() => void client.destroy())
  const asked = Promise.withResolvers<void>()
  between.holdWhen(() => {
    asked.resolve()
    return 'sent'
  })
  client.write('held ')
  await asked.promise
  between.release()
  expect((await once(client, 'data')).join()).toBe('held ')
  client.write('free')
  expect((await once(client, 'data')).join()).toBe('free')
})
