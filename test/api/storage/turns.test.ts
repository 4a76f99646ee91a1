import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type TestServer, testServer } from '../../harness/server.ts'

const uploads = 200

const cleanup = new AsyncDisposableStack()
let server: TestServer
let other: TestServer
beforeAll(async () => {
  server = cleanup.use(await testServer())
  other = cleanup.use(await testServer())
})
afterAll(() => cleanup.disposeAsync())

/** Begins an upload, and sends its body up to the last byte. */
async function begun(projectId: string, kind: Kind): Promise<Socket> {
  const { host, hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  cleanup.defer(() => void socket.destroy())
  await once(socket, 'connect')
  const body = kind.body.slice(0, -1)
  socket.write(
    `POST /v1/projects/${projectId}/${kind.path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${server.apiKey}\r\n` +
      `Content-Type: ${kind.type}\r\nContent-Length: ${kind.body.length}\r\nConnection: close\r\n\r\n${body}`,
    'latin1',
  )
  return socket
}

/** Sends the last byte, and resolves with the status of the response. */
async function end(socket: Socket, { body }: Kind): Promise<string> {
  socket.write(body.slice(-1), 'latin1')
  socket.setEncoding('utf8')
  return (await socket.toArray()).join('').slice(9, 12)
}

/** Returns the longest response time in milliseconds, of at least twenty requests, until the signal. */
async function longest(request: () => Promise<unknown>, isOver = () => true): Promise<number> {
  let found = 0
  for (let sent = 0; sent < 20 || !isOver(); sent++) {
    const began = performance.now()
    await request()
    found = Math.max(found, performance.now() - began)
  }
  return found
}

/** A pack without objects, and its hash. */
const packHead = Buffer.from('PACK\0\0\0\x02\0\0\0\0')
const pack = Buffer.concat([packHead, createHash('sha1').update(packHead).digest()])

const kinds = [
  {
    name: 'files',
    path: 'storage/upload',
    type: 'multipart/form-data; boundary=X',
    body: '--X\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n--X--\r\n',
    rows: 'pending_files',
  },
  {
    name: 'sources',
    path: 'sources',
    type: 'application/x-git-bundle',
    body: `# v2 git bundle\n${'a'.repeat(40)} refs/heads/main\n\n${pack.toString('latin1')}`,
    rows: 'sources',
  },
] as const
type Kind = (typeof kinds)[number]

const ends = {
  complete: async (sockets: readonly Socket[], kind: Kind) => {
    const statuses = await Promise.all(sockets.map((socket) => end(socket, kind)))
    expect(new Set(statuses)).toEqual(new Set(['201']))
  },
  cut: async (sockets: readonly Socket[], _kind: Kind, left: () => Promise<unknown>) => {
    for (const socket of sockets) socket.destroy()
    await expect.poll(left, { timeout: 60_000 }).toEqual([{ count: 0 }])
  },
}

const cases = kinds.flatMap((kind) => (['complete', 'cut'] as const).map((how) => ({ ...kind, how })))

it.each(cases)(
  'requests of another account do not wait behind hundreds of uploads of $name that are $how at once',
  async ({ how, ...kind }) => {
    const { id } = await server.client.projects.create({ body: { name: kind.name, plan: 'enterprise' } })
    const { id: otherId } = await other.client.projects.create({ body: { name: kind.name } })
    const requests = {
      read: () => other.client.projects.list({}),
      change: () => other.client.projects.update({ params: { project_id: otherId }, body: { name: 'changed' } }),
    }
    const left = () =>
      server.database.query(`select count(*)::int as count from ${kind.rows} where project_id = $1`, [id])
    const sockets = await Promise.all(Array.from({ length: uploads }, () => begun(id, kind)))
    await expect.poll(left, { timeout: 60_000 }).toEqual([{ count: uploads }])
    await longest(requests.read)
    const idle = { read: await longest(requests.read), change: await longest(requests.change) }

    let isOver = false
    const began = performance.now()
    const ended = ends[how](sockets, kind, left).finally(() => {
      isOver = true
    })
    const [read, change] = await Promise.all([
      longest(requests.read, () => isOver),
      longest(requests.change, () => isOver),
    ])
    await ended
    const all = performance.now() - began
    // A request behind all of them would take most of their time.
    expect(read).toBeLessThan(idle.read + all / 2)
    expect(change).toBeLessThan(idle.change + all / 2)
  },
  120_000,
)
