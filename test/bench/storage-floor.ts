/** The floor of `npm run bench storage`: no API, no form, no database. `node storage-floor.ts <folder>` prints its port. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
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
  const file = await open(path, 'w')
  await pipeline(request, file.createWriteStream({ autoClose: false }))
  await file.sync()
  await file.close()
  response.end(hash.digest('hex'))
})
server.requestTimeout = 0
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
