import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { CompactSign, type CryptoKey, exportJWK, generateKeyPair, type JWK, type KeyObject } from 'jose'
import { issueCertificate, makeAuthority, makeKey } from '../../server/src/features/databases/postgres/certificates.ts'
import { temporaryDirectory } from './temporary.ts'

export type Claims = Readonly<Record<string, unknown>>

/** A signing key of the issuer. */
export interface SigningKey {
  readonly privateKey: CryptoKey | KeyObject | Uint8Array
  readonly header: Readonly<Record<string, unknown>> & { readonly alg: string }
}

export interface IssuerKey extends SigningKey {
  /** The public key as it stands in the set of keys. */
  readonly publicJwk: JWK
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void

/** An issuer of OpenID Connect tokens on an HTTPS server, which also answers as GitHub's runner does. */
export interface OidcIssuer extends AsyncDisposable {
  /** Such as `https://localhost:41234`. */
  readonly url: string
  /** A file with the certificate of the issuer's authority, for NODE_EXTRA_CA_CERTS of other processes. */
  readonly authorityFile: string
  /** The default key of `sign`. */
  readonly key: IssuerKey
  /** The public keys of the answer at `/jwks`. May be changed. */
  readonly jwks: JWK[]
  readonly requests: readonly string[]
  /** The tokens that `workflow` has issued. */
  readonly given: readonly string[]
  /** Replaces the answer at a path: `/.well-known/openid-configuration`, `/jwks` or any other. */
  answer(path: string, answer: Answer): void
  /** Signs only these claims; a text is signed unchanged. `header` is merged into the key's header. */
  sign(claims: Claims | string, header?: Claims, key?: SigningKey): Promise<string>
  /** Signs the claims of a workflow run, overridden by the given claims; `undefined` removes a claim. */
  workflowToken(audience: string, claims?: Claims): Promise<string>
  /** Returns the variables of a job that may request tokens. Its process trusts the issuer's certificate by them. */
  workflow(claims?: Claims): Readonly<Record<string, string>>
}

/** Starts an issuer. This process trusts its certificate while the issuer runs. */
export async function oidcIssuer(): Promise<OidcIssuer> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const authority = await makeAuthority(new Date())
  const tlsKey = await makeKey()
  const certificate = await issueCertificate(authority, tlsKey, ['localhost', '127.0.0.1'], new Date())
  const authorityFile = join(directory.path, 'authority.pem')
  await writeFile(authorityFile, authority.certificate)
  cleanup.use(trustHere(authority.certificate))

  const key = await issuerKey('RS256')
  const jwks = [key.publicJwk]
  const requests: string[] = []
  const given: string[] = []
  const answers = new Map<string, Answer>()
  const server = createServer({ key: tlsKey, cert: certificate }, (request, response) => {
    const { pathname } = new URL(request.url ?? '', 'https://localhost')
    requests.push(pathname)
    const answer = answers.get(pathname)
    if (answer === undefined) send(response, 404, { error: 'not_found' })
    else answer(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanup.defer(async () => {
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
  })

  const url = `https://localhost:${(server.address() as AddressInfo).port}`
  const sign: OidcIssuer['sign'] = (claims, header = {}, by = key) => signToken(by, claims, header)
  const workflowToken = (audience: string, claims: Claims = {}) => sign({ ...gitHubClaims(url, audience), ...claims })
  answers.set('/.well-known/openid-configuration', (_, response) => send(response, 200, discoveryOf(url)))
  answers.set('/jwks', (_, response) => send(response, 200, { keys: jwks }))

  const owned = cleanup.move()
  return {
    url,
    authorityFile,
    key,
    jwks,
    requests,
    given,
    answer: (path, answer) => void answers.set(path, answer),
    sign,
    workflowToken,
    workflow(claims) {
      const [path, secret] = [`/jobs/${randomUUID()}/idtoken`, randomUUID()]
      answers.set(path, async (request, response) => {
        if (request.headers.authorization !== `Bearer ${secret}`) return send(response, 401, {})
        const audience = new URL(request.url ?? '', url).searchParams.get('audience')
        const token = await workflowToken(audience ?? 'https://github.com/acme', claims)
        given.push(token)
        send(response, 200, { value: token })
      })
      return {
        ACTIONS_ID_TOKEN_REQUEST_URL: `${url}${path}?api-version=2.0`,
        ACTIONS_ID_TOKEN_REQUEST_TOKEN: secret,
        NODE_EXTRA_CA_CERTS: authorityFile,
      }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Makes another key. The issuer publishes it only once its public part is in `jwks`. */
export async function issuerKey(alg: 'RS256' | 'ES256' | 'PS256' | 'ES384' | 'EdDSA'): Promise<IssuerKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  const kid = randomUUID()
  return {
    privateKey,
    header: { alg, kid },
    publicJwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' },
  }
}

/** Signs a token with any header and any payload; with `alg: none`, the signature is empty. */
export async function signToken(key: SigningKey, claims: Claims | string, header: Claims = {}): Promise<string> {
  const all = { typ: 'JWT', ...key.header, ...header }
  const payload = Buffer.from(typeof claims === 'string' ? claims : JSON.stringify(claims))
  if (/^none$/i.test(all.alg)) {
    return `${Buffer.from(JSON.stringify(all)).toString('base64url')}.${payload.toString('base64url')}.`
  }
  return new CompactSign(payload).setProtectedHeader(all).sign(key.privateKey)
}

/** Returns the claims of a token for a push to the branch `main` of acme/shop, by the names that GitHub documents. */
export function gitHubClaims(issuer: string, audience: string, now = Date.now()): Claims {
  const seconds = Math.floor(now / 1000)
  const workflow = 'acme/shop/.github/workflows/deploy.yml@refs/heads/main'
  return {
    iss: issuer,
    aud: audience,
    sub: 'repo:acme/shop:ref:refs/heads/main',
    jti: randomUUID(),
    iat: seconds,
    nbf: seconds - 300,
    exp: seconds + 300,
    repository: 'acme/shop',
    repository_id: '700100200',
    repository_owner: 'acme',
    repository_owner_id: '100200',
    repository_visibility: 'private',
    actor: 'octocat',
    actor_id: '583231',
    event_name: 'push',
    ref: 'refs/heads/main',
    ref_type: 'branch',
    ref_protected: 'false',
    base_ref: '',
    head_ref: '',
    sha: '1f'.repeat(20),
    workflow: 'Deploy',
    workflow_ref: workflow,
    workflow_sha: '1f'.repeat(20),
    job_workflow_ref: workflow,
    job_workflow_sha: '1f'.repeat(20),
    run_id: '9000000001',
    run_number: '12',
    run_attempt: '1',
    runner_environment: 'github-hosted',
  }
}

function discoveryOf(url: string): unknown {
  return {
    issuer: url,
    jwks_uri: `${url}/jwks`,
    response_types_supported: ['id_token'],
    subject_types_supported: ['public', 'pairwise'],
    id_token_signing_alg_values_supported: ['RS256'],
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** Makes this process trust an additional authority until the result is disposed of. */
function trustHere(certificate: string): Disposable {
  setDefaultCACertificates([...getCACertificates('default'), certificate])
  return {
    [Symbol.dispose]: () =>
      setDefaultCACertificates(getCACertificates('default').filter((one) => one.trim() !== certificate.trim())),
  }
}
