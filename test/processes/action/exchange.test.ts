import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HEAD } from '../../harness/action/payloads.ts'
import { errorsIn } from '../../harness/action/step/run.ts'
import type { Claims } from '../../harness/oidc-issuer.ts'
import type { ActionResult } from '../../harness/run-action.ts'
import { BUILDING, buildingApp, keysOf, slowApp, type Workflow, workflow } from './harness.ts'

/*
 * The committed bundle, an issuer with an HTTPS server and keys, and a whole server that trusts acme/shop: a workflow
 * without any secret. Keys expire so early that a build outlives several.
 */

const keySeconds = 5

let at: Workflow
beforeAll(async () => {
  at = await workflow({ FAIRLEAD_WORKFLOW_KEY_LIFE: String(keySeconds) })
})
afterAll(() => at?.[Symbol.asyncDispose]())

/** Runs the main step of a job with the permission `id-token: write` and without a key. */
async function deploy(name: string, commit: string, run: { claims?: Claims; onLine?: OnLine } = {}) {
  const { onLine } = run
  const env = at.issuer.workflow(run.claims)
  const inputs = { 'api-key': '', name }
  const result = await at.deploy('main', commit, { inputs, env, ...(onLine === undefined ? {} : { onLine }) })
  const post = () => at.deploy('main', commit, { inputs, env: { ...env, ...result.state } })
  return { ...result, post }
}
type OnLine = (line: string, kill: (signal: NodeJS.Signals) => void) => unknown

/** The part of the output that readers see, without the masks. */
const seenOf = ({ stdout }: Pick<ActionResult, 'stdout'>) => stdout.replace(/^::add-mask::.*\n/gm, '')

const remote = (id: string | undefined) =>
  at.server.client.deployments.get({ params: { project_id: at.projectId, id: id ?? '' } })

describe('a workflow without a secret', () => {
  test('deploys with consecutive keys during its build, and shows none of them', async () => {
    const build = `let line = 0
setInterval(() => { console.log('line ' + ++line); if (line === ${keySeconds * 2}) process.exit() }, 1000)`
    const commit = await at.push('main', buildingApp(build))
    const result = await deploy('long', commit)
    expect(result).toMatchObject({ code: 0, stderr: '', outputs: { status: 'running', commit, 'failure-code': '' } })
    expect(await (await fetch(result.outputs['url'] ?? '')).text()).toBe('built')

    const lines = [...result.stdout.matchAll(/^line (\d+)$/gm)].map(([, line]) => Number(line))
    expect(lines).toEqual(Array.from({ length: keySeconds * 2 }, (_, line) => line + 1))
    const keys = keysOf(result)
    expect(new Set(keys).size).toBeGreaterThanOrEqual(3)
    for (const secret of [...keys, ...at.issuer.given]) {
      expect(seenOf(result)).not.toContain(secret)
      expect(JSON.stringify(result.outputs) + result.summary).not.toContain(secret)
    }
    expect(await remote(result.outputs['deployment-id'])).toMatchObject({
      trigger: { kind: 'workflow', repository: 'acme/shop', actor: 'octocat', event: 'push' },
    })
    expect(await result.post()).toMatchObject({ code: 0, stderr: '' })
    expect(await Promise.all(keys.map((key) => at.isKnown(key)))).toEqual(keys.map(() => false))
  })

  test('that was killed cancels its deployment in the post step, with a separate key', async () => {
    const commit = await at.push('main', slowApp)
    const killed = await deploy('killed', commit, { onLine: (line, kill) => line === BUILDING && kill('SIGKILL') })
    const post = await killed.post()
    expect(post).toMatchObject({ code: 0, stderr: '' })
    expect(await remote(killed.outputs['deployment-id'])).toMatchObject({ status: 'canceled' })
    // A slow step needs several.
    const [before, keys] = [keysOf(killed), keysOf(post)]
    expect(keys).not.toEqual([])
    expect(keys.filter((key) => before.includes(key))).toEqual([])
    expect(await Promise.all([...before, ...keys].map((key) => at.isKnown(key)))).not.toContain(true)
  })

  test('that the project does not trust gets an error with advice', async () => {
    const result = await deploy('untrusted', '1f'.repeat(20), { claims: { repository_id: '1' } })
    expect(result).toMatchObject({ code: 1, stderr: '', outputs: { status: 'failed', 'failure-code': 'no_key' } })
    expect(errorsIn(result.stdout)).toEqual([
      expect.stringMatching(
        /gives this workflow no key .*fairlead trust add proj_\w+ --repository acme\/shop --repository-id ID --branch main`/,
      ),
    ])
    expect(keysOf(result)).toEqual([])
  })

  const pullRequest = { GITHUB_EVENT_NAME: 'pull_request', GITHUB_REF: 'refs/pull/12/merge' }
  test.each<[string, Record<string, string>, Claims, string]>([
    ['a tag', { GITHUB_REF: 'refs/tags/v1' }, { ref: 'refs/tags/v1' }, '--repository-id ID --tag v1`'],
    ['a branch that a shell would run', { GITHUB_REF: "refs/heads/'$(id)" }, { ref: 'x' }, "--branch ''\\''$(id)'`"],
    [
      'GitHub Enterprise',
      { GITHUB_SERVER_URL: 'https://git.acme.example' },
      { ref: 'x' },
      '--issuer https://git.acme.example/_services/token --repo',
    ],
    [
      'a pull request',
      pullRequest,
      { event_name: 'pull_request', ref: 'refs/pull/12/merge' },
      '--repository-id ID --event pull_request`',
    ],
    [
      'a target of pull requests',
      { GITHUB_EVENT_NAME: 'pull_request_target' },
      { event_name: 'pull_request_target' },
      'No rule may trust `pull_request_target`',
    ],
  ])('for %s gets an error with the matching rule', async (_, env, claims, told) => {
    const head = { ref: 'main', sha: HEAD, repo: { full_name: 'acme/shop', fork: false } }
    const payload = { action: 'opened', number: 12, pull_request: { number: 12, state: 'open', head, base: head } }
    const inputs = { 'api-key': '', 'allow-unsafe-fork-code': 'true', comment: 'false' }
    const result = await at.deploy('main', HEAD, { inputs, payload, env: { ...at.issuer.workflow(claims), ...env } })
    expect(errorsIn(result.stdout)).toEqual([expect.stringContaining(told)])
  })

  test('with a path in its address gets an error about the path, and about no rule', async () => {
    const inputs = { 'api-key': '', 'api-url': `${at.server.url}/dashboard` }
    const result = await at.deploy('main', HEAD, { inputs, env: at.issuer.workflow() })
    expect(errorsIn(result.stdout)).toEqual([expect.stringMatching(/^`api-url`: .*Leave out the path/)])
  })

  test('whose token is for another server gets an error with the address, and no rule', async () => {
    const env = at.issuer.workflow({ aud: 'https://elsewhere.example' })
    const result = await at.deploy('main', HEAD, { inputs: { 'api-key': '' }, env })
    expect(errorsIn(result.stdout)).toEqual([
      expect.stringMatching(/^`api-url`: .*its audience must be http\S+\. Set it to/),
    ])
  })

  test('without the permission gets an error with both ways', async () => {
    const result = await at.deploy('main', '1f'.repeat(20), { inputs: { 'api-key': '' } })
    expect(result).toMatchObject({ code: 1, outputs: { 'failure-code': 'invalid_input' } })
    expect(errorsIn(result.stdout)).toEqual([expect.stringMatching(/`id-token: write`.*secrets\.FAIRLEAD_API_KEY/)])
  })
})
