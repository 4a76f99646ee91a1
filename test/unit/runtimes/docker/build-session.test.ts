import { once } from 'node:events'
import { connect, type IncomingHttpHeaders } from 'node:http2'
import { createConnection, createServer, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import type { EngineRequest } from '../../../../server/src/runtimes/docker/client.ts'
import { type BuildAnswers, openSession } from '../../../../server/src/runtimes/docker/dockerfiles/buildkit.ts'
import { bytesField, textOf } from '../../../../server/src/runtimes/docker/dockerfiles/protobuf.ts'

const credentialsMethod = '/moby.filesync.v1.Auth/Credentials'
const host = (name: string) => bytesField(1, Buffer.from(name))

/** Opens a session whose daemon is the test. */
async function daemonOf(answers: BuildAnswers) {
  await using cleanup = new AsyncDisposableStack()
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanup.defer(() => void server.close())
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const ours = createConnection(address.port, '127.0.0.1')
  const [theirs] = (await once(server, 'connection')) as [Socket]
  let asked: EngineRequest | undefined
  const upgrade = async (request: EngineRequest) => {
    asked = request
    return theirs
  }
  const session = await openSession({ upgrade }, answers, new AbortController().signal)
  cleanup.defer(() => session.end())
  const daemon = connect('http://session', { createConnection: () => ours })
  cleanup.defer(() => daemon.destroy())
  const owned = cleanup.move()
  return {
    session,
    headers: asked?.headers,
    /** Calls a method by gRPC. */
    async call(path: string, message: Buffer): Promise<{ readonly status: string; readonly message: Buffer }> {
      const stream = daemon.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc' })
      let head: IncomingHttpHeaders = {}
      stream.on('response', (headers) => Object.assign(head, headers))
      stream.on('trailers', (headers) => {
        head = { ...head, ...headers }
      })
      const prefix = Buffer.alloc(5)
      prefix.writeUInt32BE(message.length, 1)
      stream.end(Buffer.concat([prefix, message]))
      const answer = Buffer.concat(await stream.toArray())
      return { status: String(head['grpc-status']), message: answer.subarray(5) }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

it('a session gives a build’s daemon the project’s credentials for its registries', async () => {
  const asked: string[] = []
  await using daemon = await daemonOf({
    secrets: { TOKEN: 'of the app' },
    async credentialsFor(registry) {
      asked.push(registry)
      if (registry === 'docker.io') return { username: 'hub', password: 'of the hub' }
      return registry === 'registry.example:5000' ? { username: 'deploy', password: 'pässword' } : null
    },
  })
  expect(daemon.headers).toMatchObject({
    'x-docker-expose-session-grpc-method': ['/moby.buildkit.secrets.v1.Secrets/GetSecret', credentialsMethod],
  })
  const credentials = async (name: string) => {
    const { status, message } = await daemon.call(credentialsMethod, host(name))
    return [status, textOf(message, 1), textOf(message, 2)]
  }
  expect(await credentials('registry.example:5000')).toEqual(['0', 'deploy', 'pässword'])
  expect(await credentials('registry-1.docker.io')).toEqual(['0', 'hub', 'of the hub'])
  expect(asked).toEqual(['registry.example:5000', 'docker.io'])
  for (const other of ['registry.example', 'other.example', 'sub.registry.example:5000', 'docker.io.example']) {
    expect(await credentials(other)).toEqual(['0', '', ''])
  }
  const before = asked.length
  for (const none of ['', 'a b', 'https://registry.example:5000', '../registry.example:5000']) {
    expect(await credentials(none)).toEqual(['0', '', ''])
  }
  expect(asked).toHaveLength(before)
  const secret = await daemon.call('/moby.buildkit.secrets.v1.Secrets/GetSecret', host('TOKEN'))
  expect(textOf(secret.message, 1)).toBe('of the app')
  for (const unknown of ['FetchToken', 'GetTokenAuthority', 'VerifyTokenAuthority']) {
    const refused = await daemon.call(`/moby.filesync.v1.Auth/${unknown}`, host('registry.example:5000'))
    expect(refused).toMatchObject({ status: '12', message: Buffer.alloc(0) })
  }
  expect(daemon.session.failed.aborted).toBe(false)
})

it('a session reports unreadable credentials as a server error, not as a fault of the Dockerfile', async () => {
  const error = new Error('the database is gone')
  await using daemon = await daemonOf({ secrets: {}, credentialsFor: () => Promise.reject(error) })
  await daemon.call(credentialsMethod, host('registry.example')).catch(() => undefined)
  expect(daemon.session.failed).toMatchObject({ aborted: true, reason: error })
})
