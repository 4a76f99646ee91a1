import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createKnown } from '../../../server/src/gateway/desired.ts'
import { connect, restore } from '../../../server/src/gateway/link.ts'
import type { FromGateway, ToGateway } from '../../../server/src/gateway/protocol/program.ts'
import { carryLines } from '../../../server/src/gateway/protocol/rpc.ts'
import { giveUpRights } from '../../../server/src/platform/machine/rights.ts'
import { silent } from '../../harness/gateway/silent.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/** Connects to a gateway of an older version, and records its received calls. */
async function connectToOlder(cleanup: AsyncDisposableStack, version: { readonly protocol?: number }) {
  const { path } = cleanup.use(await temporaryDirectory())
  const folder = join(path, 'g')
  await mkdir(folder, { mode: 0o700 })
  const received: string[] = []
  const gateway = createServer((socket) => {
    const post = carryLines<ToGateway, FromGateway>(socket, (message) => {
      received.push('name' in message ? message.name : message.type)
      const apps = { mode: 'ports' } as const
      const options = { version: 'old', host: '127.0.0.1', apps, trustedProxies: [], workers: 1 }
      const welcome = { type: 'welcome', pid: 1, startedAt: '', options, apps: [], ...version } as const
      if (message.type === 'hello') post(welcome as unknown as FromGateway)
      else if ('id' in message) post({ type: 'reply', id: message.id, result: null })
    })
  }).listen(join(folder, 'gateway.sock'))
  cleanup.defer(() => void gateway.close())
  await once(gateway, 'listening')
  const home = { folder, socket: join(folder, 'gateway.sock') }
  const on = { refused: () => {}, uncertified: () => {} }
  const connection = await connect(home, { epoch: 1, on, user: null, log: silent })
  if (connection === null) throw new Error('there is no gateway')
  cleanup.defer(() => connection.end())
  return { connection, received }
}

it('a gateway from before static sites never gets a folder, and everything else continues', async () => {
  await using cleanup = new AsyncDisposableStack()
  const { connection, received } = await connectToOlder(cleanup, {})
  const routeTo = (endpoint: { folder: string } | { host: string; port: number }) =>
    connection.call('route', { appId: 'app', upstream: { deploymentId: 'dep_1', endpoints: [endpoint] } })
  await expect(routeTo({ folder: '/site' })).rejects.toThrow('older version')
  await expect(connection.call('probe', { folder: '/site', path: '/' })).rejects.toThrow('older version')
  expect(await routeTo({ host: '127.0.0.1', port: 1 })).toBeNull()
  expect(received).toEqual(['hello', 'route'])
})

it('a gateway from before the edge never gets names, certificates and responses, but gets folders', async () => {
  await using cleanup = new AsyncDisposableStack()
  const { connection, received } = await connectToOlder(cleanup, { protocol: 2 })
  const known = createKnown()
  known.names.set('app', [{ hostname: 'a.test', redirectTo: null }])
  known.certificates.set('a.test', 'pem')
  known.answers.set('/.well-known/x', 'y')
  const problems: string[] = []
  const log = { ...silent, error: (fields: object) => void problems.push(String((fields as { err: Error }).err)) }
  await restore(connection, { known, isListening: true }, log)
  expect(problems).toHaveLength(3)
  expect(new Set(problems)).toEqual(new Set([expect.stringContaining('older version')]))
  const site = { deploymentId: 'dep_1', endpoints: [{ folder: '/site' }] } as const
  await connection.call('route', { appId: 'app', upstream: site })
  expect(received).toEqual(['hello', 'listen', 'route'])
})

it('a gateway of a root server keeps no rights, or only the right to listen on low ports', () => {
  const runAs = { user: { uid: 7, gid: 7 }, setpriv: '/bin/setpriv', node: '/node', program: '/main.js' }
  const always = ['/bin/setpriv', '--reuid=7', '--regid=7', '--clear-groups']
  const sets = (kept: string) => [`--inh-caps=${kept}`, `--ambient-caps=${kept}`, `--bounding-set=${kept}`]
  const rest = ['--no-new-privs', '--']
  expect(giveUpRights({ ...runAs, hasLowPorts: false })).toEqual([...always, ...sets('-all'), ...rest])
  expect(giveUpRights({ ...runAs, hasLowPorts: true })).toEqual([...always, ...sets('-all,+net_bind_service'), ...rest])
})
