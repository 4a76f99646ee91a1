import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fairlead, serverProcess } from '../test/harness/process.ts'
import { repository } from '../test/harness/repository.ts'
import { type ActionResult, runAction } from '../test/harness/run-action.ts'
import { startReceiverApp } from './receiver-app.ts'
import type { Terminal } from './terminal.ts'
import { startVisitor } from './visitor.ts'

const appFolder = fileURLToPath(new URL('app', import.meta.url))

/**
 * The whole story on real parts: a push, the action, a deployment, its address and its signed webhook; then a second
 * push that changes what the address answers without a failed request.
 * Everything that it starts is on `running`, to be stopped by the caller.
 */
export async function tell(terminal: Terminal, directory: string, running: AsyncDisposableStack): Promise<string> {
  const data = join(directory, 'data')
  const { step } = terminal

  terminal.title('A platform')
  const server = await step(
    'start the server',
    async () => {
      const started = await serverProcess(data, { FAIRLEAD_STABLE_TIME: '1' })
      // Ctrl+C in the meantime: nobody is left to stop it.
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

  terminal.title('An app that wants to know')
  const announced = new Map<string, PromiseWithResolvers<string>>()
  const announcement = (id: string) => {
    if (!announced.has(id)) announced.set(id, Promise.withResolvers())
    return announced.get(id) as PromiseWithResolvers<string>
  }
  const receiver = await startReceiverApp((line, id) => {
    terminal.quote('receiver', line)
    announcement(id).resolve(id)
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

  terminal.title('A push')
  const app = running.use(await repository({}))
  const remote = join(directory, 'app.git')
  const push = async (version: number) => {
    const files = { 'version.json': JSON.stringify({ version }), ...(await sampleApp()) }
    const commit = await app.commit(files)
    await app.git('push', '--quiet', remote, 'main')
    return commit
  }
  await step(
    'push to a git repository',
    async () => {
      await app.git('init', '--quiet', '--bare', remote)
      return push(1)
    },
    (commit) => `${commit.slice(0, 7)} on main`,
  )
  const deploy = () =>
    succeed(
      runAction({
        inputs: {
          'api-url': server.url,
          'api-key': apiKey,
          'project-id': project.id,
          name: 'hello',
          'git-url': `file://${remote}`,
          branch: 'main',
          'env-vars': 'GREETING=Hello from Fairlead',
        },
        onLine: (line) => {
          // Lines that begin so are meant for the runner.
          if (!line.startsWith('::')) terminal.quote('action', line)
        },
      }),
    )
  const first = await step(
    'run the action as GitHub would',
    deploy,
    ({ outputs }) => `${outputs['deployment-id']} is ${outputs['status']}`,
  )
  const url = String(first.outputs['url'])
  await step(
    'receive the signed webhook',
    () => within(announcement(String(first.outputs['deployment-id'])).promise, 'the webhook'),
    () => 'deployment.succeeded, verified and typed',
  )
  await step(
    'ask the address',
    () => ask(url, 1),
    (text) => `${url} → ${text}`,
  )

  terminal.title('A second push, while a visitor keeps asking')
  const visitor = startVisitor(url)
  await step(
    'push a change',
    () => push(2),
    (commit) => `${commit.slice(0, 7)} on main`,
  )
  const second = await step(
    'run the action again',
    deploy,
    ({ outputs }) => `${outputs['deployment-id']} is ${outputs['status']}`,
  )
  await step(
    'receive its webhook',
    () => within(announcement(String(second.outputs['deployment-id'])).promise, 'the webhook'),
    () => 'deployment.succeeded',
  )
  await step(
    'ask the address again',
    () => ask(url, 2),
    (text) => `${url} → ${text}`,
  )
  await step(
    'look at what the visitor saw',
    async () => {
      const visit = await visitor.stop()
      if (visit.failed > 0) throw new Error(`${visit.failed} of ${visit.requests} requests failed`)
      if (visit.seen.length !== 2) throw new Error(`the visitor saw ${visit.seen.length} different answers, not two`)
      return visit
    },
    ({ requests }) => `${requests} requests, none failed, one change of the answer`,
  )
  return url
}

async function command(data: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await fairlead([...args, '--data-dir', data])
  if (code !== 0) throw new Error(stderr.trim())
  return stdout.trim()
}

async function succeed(action: Promise<ActionResult>): Promise<ActionResult> {
  const result = await action
  if (result.code !== 0 || result.outputs['status'] !== 'running') {
    throw new Error(`the action ended with code ${result.code}`)
  }
  return result
}

async function sampleApp(): Promise<Record<string, string>> {
  const names = ['package.json', 'server.js']
  const contents = await Promise.all(names.map((name) => readFile(join(appFolder, name), 'utf8')))
  return Object.fromEntries(names.map((name, at) => [name, contents[at] ?? '']))
}

async function ask(url: string, version: number): Promise<string> {
  const text = await (await fetch(url)).text()
  if (JSON.parse(text).version !== version) throw new Error(`${url} answered ${text}, not version ${version}`)
  return text
}

async function within<T>(promise: Promise<T>, what: string): Promise<T> {
  const seconds = 20
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Error(`${what} did not come within ${seconds} s`)), seconds * 1000)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
