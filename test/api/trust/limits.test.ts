import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ownServer } from '../../harness/server.ts'
import { type TrustScene, trustScene } from './support.ts'

const metricsToken = 'a-token-for-metrics'
let scene: TrustScene
beforeAll(async () => {
  scene = await trustScene({ FAIRLEAD_WORKFLOW_KEY_LIFE: '2', FAIRLEAD_METRICS_TOKEN: metricsToken })
  await scene.trust()
})
afterAll(() => scene[Symbol.asyncDispose]())

const metric = async (name: string): Promise<number> => {
  const headers = { authorization: `Bearer ${metricsToken}` }
  const text = await (await fetch(`${scene.server.url}/metrics`, { headers })).text()
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1])
}
const post = (token: string, from: string) =>
  fetch(`${scene.server.url}/oidc/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-forwarded-for': from },
    body: JSON.stringify({ token, project_id: scene.projectId }),
  })

describe('an exchanged key', () => {
  it('stops working at the end of its life, and a fresh token gets the next one', async () => {
    const { body } = await scene.exchange(await scene.token())
    const left = Date.parse(body.expires_at) - Date.now()
    expect(left).toBeLessThanOrEqual(2_000)
    // One more second, because the clocks of the machine and of the database are read at different times.
    await sleep(Math.max(0, left) + 1_000)
    await expect(scene.server.clientFor(body.api_key).projects.list()).rejects.toMatchObject({ code: 'unauthorized' })
    expect(await scene.end(body.api_key)).toBe(401)
    expect((await scene.exchange(await scene.token())).status).toBe(201)
  })
})

describe('POST /oidc/token', () => {
  it('limits failures by address, counts them, and still answers a good token from there', async () => {
    const before = await metric('fairlead_tokens_refused_total')
    const statuses: number[] = []
    for (let i = 0; i < 62; i++) statuses.push((await post('a.b.c', '198.51.100.7')).status)
    expect(statuses.slice(0, 60)).toEqual(Array<number>(60).fill(401))
    expect(statuses.slice(60)).toEqual([429, 429])
    expect(await metric('fairlead_tokens_refused_total')).toBe(before + 62)
    const exchanged = await metric('fairlead_tokens_exchanged_total')
    expect((await post(await scene.token(), '198.51.100.7')).status).toBe(201)
    expect(await metric('fairlead_tokens_exchanged_total')).toBe(exchanged + 1)
  })

  it('prevents a stranger with tokens of a trusted issuer from filling the audit log', async () => {
    const project = await scene.trustingProject({ branch: 'main' })
    const token = await scene.token({ repository: 'mallory/shop' })
    for (let i = 0; i < 63; i++) await scene.exchange(token, project)
    const { entries } = await scene.user.client.auditLog.list({ query: { limit: 1000 } })
    const refusals = entries.filter(
      (entry) => entry.operation === 'oidc.exchange_failed' && entry.project_id === project,
    )
    expect(refusals).toHaveLength(60)
  })

  it.each(['GET', 'PUT', 'PATCH'])('has no %s', async (method) => {
    expect((await fetch(`${scene.server.url}/oidc/token`, { method })).status).toBe(404)
  })

  it('reaches no address that the outbound rule forbids', async () => {
    await using server = await ownServer({ FAIRLEAD_OUTBOUND: 'public' })
    const user = await server.signIn()
    const { id: project_id } = await user.client.projects.create({ body: { name: 'p' } })
    const rule = { issuer: scene.issuer.url, repository: 'acme/shop', repository_id: '1' }
    await user.client.trust.create({ params: { project_id }, body: rule })
    const asked = scene.issuer.requests.length
    const response = await fetch(`${server.url}/oidc/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token: await scene.issuer.workflowToken(server.url), project_id }),
    })
    expect(await response.json()).toMatchObject({ error: { details: { reason: 'issuer_unreachable' } } })
    expect(scene.issuer.requests.length).toBe(asked)
  })
})
