import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { createLogs, type LogsDependencies } from '../../../server/src/features/deployments/logs.ts'
import { createDeploymentSecrets, tokenContext } from '../../../server/src/features/deployments/secrets.ts'
import { createLogStore } from '../../../server/src/logs/log-store.ts'
import { createSecretBox } from '../../../server/src/platform/secrets.ts'
import { deploymentRow } from '../../harness/deployment-row.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const box = createSecretBox(Buffer.alloc(32))
const row = deploymentRow({
  status: 'failed',
  variables: box.encrypt(
    JSON.stringify({
      SECRET: 'a secret value',
      GREETING: 'a plain greeting',
      DATABASE_URL: 'postgresql://db_1:the-password@127.0.0.1:30000/db_1',
    }),
    'dep_1',
  ),
  variable_origins: { plain: ['GREETING'], given: [], linked: { DATABASE_URL: 'db_1' } },
  git_token: box.encrypt('robot:the-git-token', tokenContext('dep_1')),
})
const project = { id: 'proj_1', accountId: 'acct_1', name: 'p', region: 'local', plan: 'free', createdAt: new Date(0) }
const wanted = { tail: 10, timestamps: false, processes: false, lastEventId: undefined }

const printed = 'a secret value, a plain greeting, the-password, the-git-token'
const shown = '***, a plain greeting, ***, ***'

it('the logs of a deployment and of an app mask secrets, in lines of the build and of the app', async () => {
  await using directory = await temporaryDirectory()
  const logs = createLogStore({ directory: directory.path })
  for (const stream of ['build', 'runtime'] as const) {
    await using output = await logs.open({ appId: 'app_1', deploymentId: 'dep_1', stream })
    await output.write(`${stream}: ${printed}\n`)
  }
  const reads = createLogs({
    store: {
      ofProjects: { get: async () => row },
      releases: { recent: async () => [row] },
      rows: { find: async () => row },
    },
    secrets: createDeploymentSecrets(box),
    logs,
    mostFollowers: async () => 1,
    findProject: async () => project,
    stopping: new AbortController().signal,
  } as unknown as LogsDependencies)
  const follower = { signal: new AbortController().signal, mayGoOn: async () => true }
  const answers = [
    await reads.tail(project, 'dep_1', wanted),
    await reads.tailApp(project, 'app_1', wanted),
    await reads.follow(project, 'dep_1', wanted, follower),
  ]
  for (const { body } of answers) {
    const all = await text(body as Readable)
    expect(all).toContain(`build: ${shown}`)
    expect(all).toContain(`runtime: ${shown}`)
    expect(all).not.toMatch(/secret value|the-password|the-git-token/)
  }
})
