import type { BodyInput } from '../../../server/src/contract/operations.ts'
import { type Claims, type OidcIssuer, oidcIssuer, type SigningKey } from '../../harness/oidc-issuer.ts'
import { ownServer, type SignedInBrowser, type TestServer } from '../../harness/server.ts'

type Rule = Partial<BodyInput<'trust.create'>>

/** The answer of `POST /oidc/token`. */
export interface ExchangeAnswer {
  readonly status: number
  readonly body: {
    readonly api_key: string
    readonly expires_at: string
    readonly error: { readonly code: string; readonly message: string; readonly details: { readonly reason?: string } }
  }
}

/** A server, an issuer whose certificate the server trusts, and a project that trusts acme/shop of the issuer. */
export interface TrustScene extends AsyncDisposable {
  readonly server: TestServer
  readonly issuer: OidcIssuer
  readonly user: SignedInBrowser
  readonly projectId: string
  /** Makes a rule of the project; by default for acme/shop of the issuer. */
  trust(rule?: Rule): Promise<string>
  /** Makes a project with one rule. */
  trustingProject(rule?: Rule): Promise<string>
  /** Signs a token of a push to main of acme/shop for this server, with changes. */
  token(claims?: Claims, header?: Claims, key?: SigningKey): Promise<string>
  exchange(token: unknown, projectId?: unknown): Promise<ExchangeAnswer>
  /** Ends a key. Returns the status. */
  end(key: string): Promise<number>
}

/**
 * Each request comes from a different address unless the test is about addresses, so that limits by address do not
 * apply.
 */
export async function trustScene(settings: Readonly<Record<string, string>> = {}): Promise<TrustScene> {
  await using cleanup = new AsyncDisposableStack()
  const issuer = cleanup.use(await oidcIssuer())
  const server = cleanup.use(
    await ownServer({ FAIRLEAD_TRUSTED_PROXIES: '127.0.0.1', FAIRLEAD_OUTBOUND: 'any', ...settings }),
  )
  const user = await server.signIn()
  const ruleOf = (rule: Rule = {}) => ({
    issuer: issuer.url,
    ...(rule.claims === undefined ? { repository: 'acme/shop', repository_id: '700100200' } : {}),
    ...rule,
  })
  const newProject = async () => (await user.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
  const projectId = await newProject()
  const trustIn = async (project_id: string, rule?: Rule) =>
    (await user.client.trust.create({ params: { project_id }, body: ruleOf(rule) })).id
  let requests = 0
  const url = `${server.url}/oidc/token`
  const owned = cleanup.move()
  return {
    server,
    issuer,
    user,
    projectId,
    trust: (rule) => trustIn(projectId, rule),
    async trustingProject(rule) {
      const id = await newProject()
      await trustIn(id, rule)
      return id
    },
    async token(claims = {}, header = {}, key = issuer.key) {
      const usual = JSON.parse(atob((await issuer.workflowToken(server.url)).split('.')[1] ?? '')) as Claims
      const all = Object.entries({ ...usual, ...claims }).filter(([, value]) => value !== undefined)
      return issuer.sign(Object.fromEntries(all), header, key)
    },
    async exchange(token, project = projectId) {
      requests++
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-forwarded-for': `203.0.${requests >> 8}.${requests & 255}` },
        body: JSON.stringify({ token, project_id: project }),
      })
      return { status: response.status, body: (await response.json()) as ExchangeAnswer['body'] }
    },
    end: async (key) => (await fetch(url, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } })).status,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
