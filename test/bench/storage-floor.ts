/**
 * The bare server for `npm run bench storage`, without API, form and database. `node storage-floor.ts <folder>` prints
 * its port.
 */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'

const [folder = '.'] = process.argv.slice(2)
const path = join(folder, 'floor')

const server = createServer(async (request, response) => {
  if (request.method === 'GET') {
    await pipeline(createReadStream(path), response)
    return
  }
  const hash = createHash('sha256')
  request.on('data', (chunk: Buffer) => hash.update(chunk))
  // `flush` syncs the file before it is closed.
  await pipeline(request, createWriteStream(path, { flush: true }))
  response.end(hash.digest('hex'))
})
server.requestTimeout = 0
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
