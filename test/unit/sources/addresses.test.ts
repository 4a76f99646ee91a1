import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, it } from 'vitest'
import { createOutbound } from '../../../server/src/platform/outbound.ts'
import { createGit, type Git, type Pin } from '../../../server/src/sources/git.ts'
import { connect } from '../../../server/src/sources/remote.ts'
import { gitServer } from '../../harness/git-server.ts'
import { repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { confined } from './confined.ts'

/** A host without a listener at its first address. */
const outbound = createOutbound({
  mode: 'public',
  allow: ['127.0.0.0/8'],
  ports: [],
  resolveName: async () => ['127.0.0.2', '127.0.0.1'].map((address) => ({ address, family: 4 })),
})

const connectTo = (git: Git, gitUrl: string) =>
  connect(
    { git, outbound },
    {
      gitUrl,
      credentials: { token: null, sshKey: null },
      hostKeys: { keyOf: async () => null, keep: async () => true },
      files: { everywhere: false, below: [], dataDirectory: '/nowhere' },
      useAgent: false,
    },
    AbortSignal.timeout(60_000),
  )

it('git reaches a host whose first address does not answer', async () => {
  await using directory = await temporaryDirectory()
  await using source = await repository({ 'a.txt': 'a' })
  await using server = await gitServer(source)
  const git = await createGit({
    ...{ directory: directory.path, confined, environment: {}, sshAgent: null, mostFileBytes: 1e9 },
  })
  const remote = await connectTo(git, server.url.replace('127.0.0.1', 'git.test'))
  expect(await remote.defaultBranch()).toMatchObject({ name: 'main' })
})

it('ssh, which takes one address, gets the first address that answers', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const pins: (Pin | undefined)[] = []
  const git = {
    run: async (_, { remote }) => {
      pins.push(remote?.pin)
      return { code: 0, stdout: '', stderr: '', exceeded: false }
    },
  } as Pick<Git, 'run'> as Git
  try {
    const remote = await connectTo(git, `ssh://git@git.test:${port}/a.git`)
    await remote.tipOf('refs/heads/main')
  } finally {
    server.close()
  }
  expect(pins).toEqual([{ host: 'git.test', port, addresses: ['127.0.0.1'] }])
})
