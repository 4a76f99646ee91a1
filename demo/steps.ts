import { dirname } from 'node:path'
import type { Client } from '@fairlead/server/client'
import { fairlead, serverProcess } from '../test/harness/process.ts'
import { runAction } from '../test/harness/run-action.ts'
import { startReceiverApp } from './receiver-app.ts'
import type { Source } from './source.ts'
import type { Terminal } from './terminal.ts'

const webhookSeconds = 20

/** A running server with an API key and a project. */
export interface Account {
  readonly serverUrl: string
  readonly apiKey: string
  readonly client: Client
  readonly projectId: string
}

/** Starts a server and creates an account, an API key and a project. */
export async function startAccount(
  { title, step }: Terminal,
  data: string,
  running: AsyncDisposableStack,
): Promise<Account> {
  title('A platform')
  const server = await step(
    'start the server',
    async () => {
      const started = await serverProcess(data, { FAIRLEAD_STABLE_TIME: '1', FAIRLEAD_FILE_SOURCES: dirname(data) })
      // After a Ctrl+C in the meantime, `running` is disposed already and would not stop the server.
      if (running.disposed) await started.stop()
      return running.use(started)
    },
    ({ url }) => `${url}, with its own PostgreSQL`,
  )
  const account = await step(
    'create an account',
    () => command(data, 'accounts', 'create', '--name', 'Demo', '--plan', 'pro'),
    (id) => id,
  )
  const apiKey = await step(
    'create an API key',
    () => command(data, 'keys', 'create', '--name', 'ci', '--account', account),
    (key) => `${key.slice(0, 7)}…`,
  )
  const client = server.clientFor(apiKey)
  const project = await step(
    'create a project',
    () => client.projects.create({ body: { name: 'Demo' } }),
    ({ id }) => id,
  )
  return { serverUrl: server.url, apiKey, client, projectId: project.id }
}

/** Starts an app with a receiver and registers its webhook. Returns a function that waits for a deployment's webhook. */
export async function startEndpoint(
  { title, step, quote }: Terminal,
  client: Client,
  running: AsyncDisposableStack,
): Promise<(deploymentId: string) => Promise<void>> {
  title('An app with a webhook')
  const announced = new Map<string, PromiseWithResolvers<void>>()
  const announcement = (id: string) => {
    const known = announced.get(id) ?? Promise.withResolvers<void>()
    announced.set(id, known)
    return known
  }
  const receiver = await startReceiverApp((line, id) => {
    quote('receiver', line)
    announcement(id).resolve()
  })
  running.defer(receiver.stop)
  await step(
    'register its webhook',
    async () => {
      const hook = await client.webhooks.create({ body: { url: receiver.url, events: ['deployment.succeeded'] } })
      receiver.listen(hook.secret)
      return hook
    },
    ({ id, url }) => `${id} → ${url}`,
  )
  return (id) => withTimeout(announcement(id).promise, webhookSeconds, 'the webhook')
}

/** Runs the action as a workflow would, and returns the id and the address of the deployment. */
export async function deployByAction(
  { step, quote }: Terminal,
  title: string,
  { serverUrl, apiKey, projectId }: Account,
  source: Source,
): Promise<{ readonly id: string; readonly url: string }> {
  const { outputs } = await step(
    title,
    async () => {
      let reason = ''
      const result = await runAction({
        inputs: {
          'api-url': serverUrl,
          'api-key': apiKey,
          'project-id': projectId,
          name: 'hello',
          'git-url': source.url,
          branch: 'main',
          'env-vars': 'GREETING=Hello from Fairlead',
        },
        onLine: (line) => {
          // Lines with this prefix are commands for the runner, which shows errors.
          if (!line.startsWith('::')) quote('action', line)
          if (line.startsWith('::error')) reason = `: ${line.replace(/^::error[^:]*::/, '')}`
        },
      })
      if (result.code === 0 && result.outputs['status'] === 'running') return result
      throw new Error(`the action ended with code ${result.code}${reason}`)
    },
    (result) => `${result.outputs['deployment-id']} is ${result.outputs['status']}`,
  )
  return { id: String(outputs['deployment-id']), url: String(outputs['url']) }
}

async function command(data: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await fairlead([...args, '--data-dir', data])
  if (code !== 0) throw new Error(stderr.trim())
  return stdout.trim()
}

async function withTimeout<T>(promise: Promise<T>, seconds: number, subject: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Error(`${subject} did not arrive within ${seconds} s`)), seconds * 1000)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
