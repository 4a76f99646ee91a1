import { join } from 'node:path'
import { createSource, type Source } from './source.ts'
import { type Account, deployByAction, startAccount, startEndpoint } from './steps.ts'
import type { Terminal } from './terminal.ts'
import { startVisitor } from './visitor.ts'

/**
 * Runs all steps with real programs: a push, the action, a deployment, its address and its signed webhook, and then a
 * second push that changes the answer of the address without a failed request. Returns the address. Everything that is
 * started is added to `running`, which the caller disposes of.
 */
export async function runStory(terminal: Terminal, directory: string, running: AsyncDisposableStack): Promise<string> {
  const { step } = terminal
  const account = await startAccount(terminal, join(directory, 'data'), running)
  const webhook = await startEndpoint(terminal, account.client, running)

  terminal.title('A push')
  const source = await createSource(join(directory, 'app.git'), running)
  await pushVersion(terminal, 'push to a git repository', source, 1)
  const first = await deployByAction(terminal, 'run the action as GitHub would', account, source)
  await step(
    'receive the signed webhook',
    () => webhook(first.id),
    () => 'deployment.succeeded, verified and typed',
  )
  await ask(terminal, 'ask the address', first.url, 1)

  terminal.title('A second push, while a visitor keeps asking')
  await releaseSecondVersion(terminal, account, source, first.url, webhook)
  return first.url
}

/** Deploys version 2 while a visitor sends requests, and checks that none of them failed. */
async function releaseSecondVersion(
  terminal: Terminal,
  account: Account,
  source: Source,
  url: string,
  webhook: (deploymentId: string) => Promise<void>,
): Promise<void> {
  const visitor = startVisitor(url)
  await pushVersion(terminal, 'push a change', source, 2)
  const second = await deployByAction(terminal, 'run the action again', account, source)
  await terminal.step(
    'receive its webhook',
    () => webhook(second.id),
    () => 'deployment.succeeded',
  )
  await ask(terminal, 'ask the address again', url, 2)
  await terminal.step(
    'look at what the visitor saw',
    async () => {
      const visit = await visitor.stop()
      if (visit.failed > 0) throw new Error(`${visit.failed} of ${visit.requests} requests failed`)
      if (visit.seen.length !== 2) throw new Error(`the visitor saw ${visit.seen.length} different answers, not two`)
      return visit
    },
    ({ requests }) => `${requests} requests, none failed, one change of the answer`,
  )
}

async function pushVersion(terminal: Terminal, title: string, source: Source, version: number): Promise<void> {
  await terminal.step(
    title,
    () => source.push(version),
    (commit) => `${commit.slice(0, 7)} on main`,
  )
}

async function ask(terminal: Terminal, title: string, url: string, version: number): Promise<void> {
  await terminal.step(
    title,
    async () => {
      const text = await (await fetch(url)).text()
      if (JSON.parse(text).version !== version) throw new Error(`${url} answered ${text}, not version ${version}`)
      return text
    },
    (text) => `${url} → ${text}`,
  )
}
