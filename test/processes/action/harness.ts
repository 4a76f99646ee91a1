import { mkdir, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { testDatabase } from '../../harness/database.ts'
import { type OidcIssuer, oidcIssuer } from '../../harness/oidc-issuer.ts'
import { serverProcess } from '../../harness/process.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { type ActionResult, type ActionRun, runAction } from '../../harness/run-action.ts'
import { account, type TestServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/** The output of `slowApp`'s build, which never ends. */
export const BUILDING = 'this takes a while'

/** A process of the real server with a project that trusts pushes to main of acme/shop on a git host. */
export interface Workflow extends AsyncDisposable {
  readonly server: TestServer
  readonly projectId: string
  readonly repository: Repository
  readonly issuer: OidcIssuer
  /** Commits these files to a branch, which it creates if necessary, and returns the commit. */
  push(branch: string, files: Readonly<Record<string, string>>): Promise<string>
  /** Runs the action like a workflow after a push of this commit. */
  deploy(branch: string, commit: string, run?: Partial<ActionRun>): ReturnType<typeof runAction>
  /** True for a key that the server accepts. */
  isKnown(key: string): Promise<boolean>
}

export async function workflow(settings: Readonly<Record<string, string>> = {}): Promise<Workflow> {
  await using cleanup = new AsyncDisposableStack()
  const database = await testDatabase()
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const issuer = cleanup.use(await oidcIssuer())
  const environment = {
    DATABASE_URL: database.url,
    FAIRLEAD_FILE_SOURCES: tmpdir(),
    NODE_EXTRA_CA_CERTS: issuer.authorityFile,
    ...settings,
  }
  const { url } = cleanup.use(await serverProcess(dataDirectory, environment))
  const server = cleanup.use(await account({ url, database, dataDirectory }, (accounts) => accounts.ensureOperator()))
  const { id: projectId } = await server.client.projects.create({ body: { name: 'apps', plan: 'enterprise' } })
  // Only a signed-in user may trust workflows.
  const user = await server.signIn()
  await user.client.trust.create({
    params: { project_id: projectId },
    body: { issuer: issuer.url, repository: 'acme/shop', repository_id: '700100200', branch: 'main' },
  })
  const source = cleanup.use(await repository(nodeApp('first')))
  const host = cleanup.use(await temporaryDirectory())
  await mkdir(join(host.path, 'acme'))
  await symlink(source.path, join(host.path, 'acme', 'shop.git'))
  const owned = cleanup.move()
  return {
    server,
    projectId,
    repository: source,
    issuer,
    async push(branch, files) {
      await source.git('checkout', '--quiet', '-B', branch)
      return source.commit(files)
    },
    deploy: (branch, commit, { inputs, env, ...rest } = {}) =>
      runAction({
        inputs: { 'api-url': url, 'api-key': server.apiKey, 'project-id': projectId, ...inputs },
        env: {
          GITHUB_SERVER_URL: pathToFileURL(host.path).href,
          GITHUB_REF: `refs/heads/${branch}`,
          GITHUB_SHA: commit,
          ...env,
        },
        ...rest,
      }),
    isKnown: (key) =>
      server
        .clientFor(key)
        .projects.list()
        .then(
          () => true,
          () => false,
        ),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** The keys that a step masked, which are the keys that it used. */
export const keysOf = ({ stdout }: Pick<ActionResult, 'stdout'>): string[] =>
  [...stdout.matchAll(/^::add-mask::(fl_\w+)$/gm)].map(([, key = '']) => key)

export function buildingApp(code: string): Record<string, string> {
  return {
    ...nodeApp('built'),
    'package.json': JSON.stringify({ name: 'app', scripts: { build: 'node build.js', start: 'node server.js' } }),
    'build.js': code,
  }
}

export const slowApp = buildingApp(`console.log(${JSON.stringify(BUILDING)}); setTimeout(() => {}, 600_000)\n`)
