import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { createEngine } from '../../../../server/src/runtimes/docker/client.ts'
import { temporaryDirectory } from '../../../harness/temporary.ts'

function answer(status: string, value: object): string {
  const body = JSON.stringify(value)
  return `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

it('reports why the engine refuses an upload that it stops reading', async () => {
  await using folder = await temporaryDirectory()
  const path = join(folder.path, 'docker.sock')
  const upload = new Readable({ read() {} })
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (request) => {
      if (request.includes('/version')) {
        socket.end(answer('200 OK', { ApiVersion: '1.44', MinAPIVersion: '1.24' }))
        return
      }
      socket.write(answer('400 Bad Request', { message: 'no such folder' }))
      socket.destroy()
      // The next write fails before the response is read.
      upload.push('more')
    })
  }).listen(path)
  await once(server, 'listening')
  upload.push('first')
  const asked = createEngine(path).call({ method: 'PUT', path: ['containers', 'c', 'archive'], upload })
  await expect(asked).rejects.toThrow('no such folder')
  server.close()
})
