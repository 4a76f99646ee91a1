import { type ChildProcess, execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { hangingBuild } from '../../harness/deployments.ts'
import { type Claims, gitHubClaims, type OidcIssuer, oidcIssuer } from '../../harness/oidc-issuer.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import { type SignedInBrowser, type TestServer, testServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { ciFile, ciNames, flagOf } from './ci-files.ts'

const command = fileURLToPath(new URL('../../../cli/bin/fairlead.js', import.meta.url))

let server: TestServer
let person: SignedInBrowser
let issuer: OidcIssuer
let project: string
let programs: Awaited<ReturnType<typeof temporaryDirectory>>
let checkout: Repository
let commit: string
beforeAll(async () => {
  server = await testServer()
  person = await server.signIn()
  issuer = await oidcIssuer()
  project = (await person.client.projects.create({ body: { name: 'Shop' } })).id
  programs = await temporaryDirectory()
  // A site, which needs no build and no process.
  checkout = await repository({ 'index.html': 'from a CI' })
  commit = await checkout.git('rev-parse', 'HEAD')
  // As in a job: a commit without its branch.
  await checkout.git('checkout', '--quiet', '--detach')
})
afterAll(async () => {
  await checkout[Symbol.asyncDispose]()
  await programs[Symbol.asyncDispose]()
  await issuer[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})

const names = ['gitlab', 'forgejo', 'github', 'buildkite', 'circleci'] as const
type CiName = (typeof names)[number]

/** A CI: the claims of its tokens, by their documented names, and the variables of a job. */
interface Ci {
  /** The path of its issuer below the address. */
  readonly path: string
  readonly claims: Claims
  readonly variables: () => Promise<Readonly<Record<string, string>>>
}

const now = () => Math.floor(Date.now() / 1000)

/** Signs a token of a CI for an audience, as its issuer would. */
const signed = (name: CiName, audience: string) => {
  const { path, claims } = cis[name]
  const iss = `${issuer.url}${path}`
  return issuer.sign({
    sub: 'of the job',
    iss,
    aud: audience,
    jti: crypto.randomUUID(),
    iat: now(),
    exp: now() + 300,
    ...claims,
  })
}

/** Answers with a CI's tokens at an address, as the runners of GitHub and Forgejo do. */
const answerTokens = (name: CiName) => {
  issuer.answer(`/job/${name}`, async (request, response) => {
    const audience = new URL(request.url ?? '', issuer.url).searchParams.get('audience') ?? ''
    const isAllowed = request.headers.authorization === 'Bearer of-the-job'
    response.writeHead(isAllowed ? 200 : 401, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isAllowed ? { value: await signed(name, audience) } : {}))
  })
  return {
    ACTIONS_ID_TOKEN_REQUEST_URL: `${issuer.url}/job/${name}?api-version=2.0`,
    ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'of-the-job',
  }
}

/** Puts a CI's program on the PATH. It prints a token for exactly these arguments. */
const printTokens = async (name: CiName, program: string, expected: readonly string[]) => {
  const address = answerTokens(name).ACTIONS_ID_TOKEN_REQUEST_URL
  const script = `#!${process.execPath}
if (JSON.stringify(process.argv.slice(2)) !== ${JSON.stringify(JSON.stringify(expected))}) process.exit(2)
fetch(${JSON.stringify(`${address}&audience=${server.url}`)}, { headers: { authorization: 'Bearer of-the-job' } })
  .then((response) => response.json()).then(({ value }) => console.log(value))\n`
  await mkdir(programs.path, { recursive: true })
  await writeFile(join(programs.path, program), script, { mode: 0o755 })
}

const actions = {
  GITHUB_ACTIONS: 'true',
  GITHUB_REPOSITORY: 'acme/shop',
  GITHUB_REF_NAME: 'main',
  GITHUB_REF_TYPE: 'branch',
}

const cis: Readonly<Record<CiName, Ci>> = {
  gitlab: {
    path: '',
    claims: {
      project_path: 'group/shop',
      project_id: '4321',
      ref: 'main',
      ref_type: 'branch',
      ref_path: 'refs/heads/main',
      pipeline_source: 'push',
      pipeline_id: '77',
      user_login: 'someone',
      ci_config_ref_uri: 'gitlab.com/group/shop//.gitlab-ci.yml@refs/heads/main',
    },
    variables: async () => ({
      GITLAB_CI: 'true',
      CI_COMMIT_BRANCH: 'main',
      CI_PROJECT_NAME: 'shop',
      FAIRLEAD_ID_TOKEN: await signed('gitlab', server.url),
    }),
  },
  forgejo: {
    path: '/api/actions',
    claims: { repository: 'acme/shop', repository_id: '77', ref: 'refs/heads/main', event_name: 'push', run_id: '5' },
    variables: async () => ({ ...actions, FORGEJO_ACTIONS: 'true', ...answerTokens('forgejo') }),
  },
  github: {
    path: '/_services/token',
    claims: without(gitHubClaims('', ''), ['iss', 'aud', 'jti', 'iat', 'exp', 'nbf']),
    variables: async () => ({ ...actions, ...answerTokens('github') }),
  },
  circleci: {
    path: '/org/0190b2c4-0000-4000-8000-000000000002',
    claims: {
      'oidc.circleci.com/project-id': '0190b2c4-0000-4000-8000-000000000003',
      'oidc.circleci.com/vcs-origin': 'github.com/acme/shop',
      'oidc.circleci.com/vcs-ref': 'refs/heads/main',
    },
    variables: async () => {
      await printTokens('circleci', 'circleci', ['run', 'oidc', 'get', '--claims', JSON.stringify({ aud: server.url })])
      const own = { CIRCLE_OIDC_TOKEN_V2: 'for.the.organization', CIRCLE_BRANCH: 'main' }
      return { CIRCLECI: 'true', CIRCLE_PROJECT_REPONAME: 'shop', ...own }
    },
  },
  buildkite: {
    path: '/buildkite',
    claims: {
      sub: 'organization:acme:pipeline:shop:ref:refs/heads/main:commit:1:step:',
      organization_slug: 'acme',
      pipeline_slug: 'shop',
      pipeline_id: '0190b2c4-0000-4000-8000-000000000001',
      build_branch: 'main',
    },
    variables: async () => {
      const args = ['oidc', 'request-token', '--audience', server.url, '--claim', 'pipeline_id']
      await printTokens('buildkite', 'buildkite-agent', args)
      return { BUILDKITE: 'true', BUILDKITE_BRANCH: 'main', BUILDKITE_PIPELINE_SLUG: 'shop' }
    },
  },
}

function without(claims: Claims, names: readonly string[]): Claims {
  return Object.fromEntries(Object.entries(claims).filter(([name]) => !names.includes(name)))
}

/** Lets the project trust a CI by the page's rule; the issuer is the tests' issuer. */
async function trust(name: CiName): Promise<string> {
  const { rule } = ciFile(name)
  const { path } = cis[name]
  const { url } = issuer
  const discovery = JSON.stringify({ issuer: `${url}${path}`, jwks_uri: `${url}/jwks` })
  issuer.answer(`${path}/.well-known/openid-configuration`, (_, response) => response.end(discovery))
  const [repository, repository_id, branch] = ['--repository', '--repository-id', '--branch'].map((flag) =>
    flagOf(rule, flag),
  )
  // Buildkite's tokens are known by Buildkite's address, which the tests cannot have.
  const conditions =
    name === 'buildkite'
      ? { claims: { sub: String(cis.buildkite.claims['sub']) } }
      : { repository, repository_id, branch }
  const body = { issuer: `${url}${path}`, ...conditions } as Parameters<typeof person.client.trust.create>[0]['body']
  return (await person.client.trust.create({ params: { project_id: project }, body })).id
}

interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

const environment = () => ({
  PATH: `${programs.path}:${process.env['PATH']}`,
  XDG_CONFIG_HOME: '/nonexistent',
  NODE_EXTRA_CA_CERTS: issuer.authorityFile,
  FAIRLEAD_URL: server.url,
})

function start(args: readonly string[], variables: Readonly<Record<string, string>>, folder = checkout.path) {
  let child: ChildProcess | undefined
  const ended = new Promise<Ran>((done) => {
    child = execFile(
      process.execPath,
      [command, ...args],
      { env: { ...environment(), ...variables }, cwd: folder },
      (error, stdout, stderr) => done({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr }),
    )
  })
  return { child: child as ChildProcess, ended }
}

const keysOfJobs = async () =>
  (await person.client.apiKeys.list()).api_keys.filter(({ name }) => name.startsWith('Workflow of '))

/** Returns all commands of a file, wherever its CI has them. */
function commandsIn(file: unknown): string[] {
  if (typeof file === 'string') return /^npx /.test(file) ? [file] : []
  return typeof file === 'object' && file !== null ? Object.values(file).flatMap(commandsIn) : []
}

it('the page has a file and a rule for each CI', () => {
  expect(ciNames.toSorted()).toEqual(names.toSorted())
})

describe.each(names)('the file for %s', (name) => {
  const { file, rule } = ciFile(name)

  it('names the server as address and audience, and asks for the identity of the job', () => {
    const text = JSON.stringify(file)
    expect(text).toContain('"FAIRLEAD_URL":"https://fairlead.example.com"')
    const identity = {
      gitlab: '"id_tokens":{"FAIRLEAD_ID_TOKEN":{"aud":"https://fairlead.example.com"}}',
      forgejo: '"enable-openid-connect":true',
      github: '"id-token":"write"',
      circleci: '"checkout"',
      buildkite: '"steps"',
    }
    expect(text).toContain(identity[name])
    expect(text).not.toContain('FAIRLEAD_API_KEY')
  })

  it('deploys the commit under the names of the CI, without a stored key, and ends its key', async () => {
    const trusted = await trust(name)
    const [run = '', ...others] = commandsIn(file)
    expect(others).toEqual([])
    const [, given = ''] =
      /^npx --yes https:\/\/fairlead\.example\.com\/cli\.tgz (deploy --project proj_….*)$/.exec(run) ?? []
    const args = given.replace('proj_…', project).split(' ')
    const { code, stdout, stderr } = await start(args, await cis[name].variables()).ended
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining('shop runs after') })
    expect(await (await fetch(stdout.trim())).text()).toBe('from a CI')
    const [newest] = (await person.client.deployments.list({ params: { project_id: project } })).deployments
    const params = { project_id: project, id: newest?.id ?? '' }
    expect(await person.client.deployments.get({ params })).toMatchObject({ name: 'shop', branch: 'main', commit })
    const [key] = await keysOfJobs()
    expect(key).toMatchObject({ preset: 'deploy', project_ids: [project], revoked_at: expect.any(String) })
    expect(stdout + stderr).not.toMatch(/fl_|eyJ/)
    await person.client.trust.delete({ params: { project_id: project, id: trusted } })
    expect(flagOf(rule, '--branch')).toBe('main')
  })
})

describe('a job', () => {
  beforeAll(() => trust('forgejo'))
  const job = () => cis.forgejo.variables()

  it('that is ended ends its key first', async () => {
    await using source = await repository(hangingBuild)
    const { child, ended } = start(['deploy', '--project', project, '--name', 'hanging'], await job(), source.path)
    const building = new Promise<void>((seen) =>
      child.stderr?.on('data', (text) => String(text).includes('building') && seen()),
    )
    await Promise.race([building, ended])
    child.kill('SIGTERM')
    expect((await ended).code).toBe(143)
    expect((await keysOfJobs())[0]?.revoked_at).not.toBeNull()
    const [{ id } = { id: '' }] = (await person.client.deployments.list({ params: { project_id: project } }))
      .deployments
    await person.client.deployments.cancel({ params: { project_id: project, id } })
  })

  it('without a project, an identity, or trust gets an error with advice', async () => {
    const run = async (args: readonly string[], variables: Readonly<Record<string, string>>) => {
      const { code, stdout, stderr } = await commandHere(args, { ...environment(), ...variables }, { of: 'users' })
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      return stderr
    }
    expect(await run(['deploy'], await job())).toMatch(/Forgejo Actions.*--project with its id/)
    const withProject = ['deploy', '--project', project]
    expect(await run(withProject, { ...actions, FORGEJO_ACTIONS: 'true' })).toContain('enable-openid-connect: true')
    expect(await run(withProject, actions)).toContain('permissions: id-token: write')
    expect(await run(withProject, { GITLAB_CI: 'true' })).toMatch(/id_tokens: FAIRLEAD_ID_TOKEN.*http:\/\/127/)
    expect(await run(withProject, { BUILDKITE: 'true', PATH: '/nonexistent' })).toMatch(/no program buildkite-agent/)
    const untrusted = await run(withProject, await cis.circleci.variables())
    expect(untrusted).toContain('does not trust the issuer')
    expect(untrusted).not.toContain('eyJ')
    // For each CI, the page's command without its branch.
    for (const name of ['gitlab', 'buildkite', 'circleci'] as const) {
      const { rule } = ciFile(name)
      const told = await run(withProject, await cis[name].variables())
      expect(told).toContain(`fairlead trust add ${project} --issuer ${issuer.url}${cis[name].path} --repository `)
      for (const flag of ['--repository', '--repository-id']) expect(told).toContain(`${flag} ${flagOf(rule, flag)}`)
    }
  })
})
