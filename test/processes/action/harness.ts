import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { type ActionRun, runAction } from '../../harness/run-action.ts'
import { ownServer, type TestServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/** The output of `slowApp`'s build, which never ends. */
export const BUILDING = 'this takes a while'

/** A real server, and the repository acme/shop on a git host, for which the action runs. */
export interface Workflow extends AsyncDisposable {
  readonly server: TestServer
  readonly projectId: string
  readonly repository: Repository
  /** Commits these files to a branch, which is created when it does not exist, and returns the commit. */
  push(branch: string, files: Readonly<Record<string, string>>): Promise<string>
  /** Runs the action like a workflow that was started by a push of this commit. */
  deploy(branch: string, commit: string, run?: Partial<ActionRun>): ReturnType<typeof runAction>
}

export async function workflow(settings: Readonly<Record<string, string>> = {}): Promise<Workflow> {
  await using cleanup = new AsyncDisposableStack()
  const server = cleanup.use(await ownServer(settings))
  const source = cleanup.use(await repository(nodeApp('first')))
  const host = cleanup.use(await temporaryDirectory())
  await mkdir(join(host.path, 'acme'))
  await symlink(source.path, join(host.path, 'acme', 'shop.git'))
  const { id: projectId } = await server.client.projects.create({ body: { name: 'apps', plan: 'enterprise' } })
  const owned = cleanup.move()
  return {
    server,
    projectId,
    repository: source,
    async push(branch, files) {
      await source.git('checkout', '--quiet', '-B', branch)
      return source.commit(files)
    },
    deploy: (branch, commit, { inputs, env, ...rest } = {}) =>
      runAction({
        inputs: { 'api-url': server.url, 'api-key': server.apiKey, 'project-id': projectId, ...inputs },
        env: {
          GITHUB_SERVER_URL: pathToFileURL(host.path).href,
          GITHUB_REF: `refs/heads/${branch}`,
          GITHUB_SHA: commit,
          ...env,
        },
        ...rest,
      }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Returns an app whose build runs this code. */
export function buildingApp(code: string): Record<string, string> {
  return {
    ...nodeApp('built'),
    'package.json': JSON.stringify({ name: 'app', scripts: { build: 'node build.js', start: 'node server.js' } }),
    'build.js': code,
  }
}

export const slowApp = buildingApp(`console.log(${JSON.stringify(BUILDING)}); setTimeout(() => {}, 600_000)\n`)
