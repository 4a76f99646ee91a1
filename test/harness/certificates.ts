import { newId } from '../../server/src/platform/ids.ts'
import { withKey } from './conformance.ts'
import { authority, type Issue, type Issued, issue } from './issuing.ts'
import { type OwnServer, ownServer } from './server.ts'

let made: Promise<Issued> | undefined

/** Issues a certificate from the authority of this process, as the body of an upload. */
export async function uploadOf(asked: Issue & { readonly names: readonly string[] }) {
  made ??= authority({ to: 1000 })
  const issuer = await made
  const { certificate, key } = await issue({ issuer, to: 90, ...asked })
  return { certificate: certificate + issuer.certificate, private_key: key }
}

/** Starts a server that obtains no certificates, with a project that has an app. Tests add certificates as rows. */
export async function serverWithCertificates(): Promise<ServerWithCertificates> {
  const server = await ownServer()
  const { id: projectId } = await server.client.projects.create({ body: { name: 'p' } })
  const appId = newId('app')
  await server.database.query('insert into apps (id, project_id, name, hostname) values ($1, $2, $1, $3)', [
    ...[appId, projectId],
    `${appId}.apps.example.net`,
  ])
  return {
    server,
    projectId,
    appId,
    caller: withKey(server, server.apiKey),
    async obtained(name, { isOwn = false, days = 60 } = {}) {
      const id = newId('certificate')
      const { certificate } = await uploadOf({ names: [name] })
      await server.database.query(
        `insert into certificates (id, account_id, project_id, app_id, names, source, chain, private_key, issuer, serial,
           not_before, expires_at, attempted_at, next_attempt_at)
         select $1, id, $2, $3, array[$4], 'automatic', $5, 'sealed', 'Test Authority', '01AB',
           now() - interval '30 days', now() + make_interval(days => $6), now() - interval '30 days',
           now() + make_interval(days => $6 - 30) from accounts where operator`,
        [id, isOwn ? null : projectId, isOwn ? null : appId, name, certificate, days],
      )
      return id
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

export interface ServerWithCertificates extends AsyncDisposable {
  readonly server: OwnServer
  readonly projectId: string
  readonly appId: string
  readonly caller: ReturnType<typeof withKey>
  /** Adds a certificate that was obtained a month ago, for the server or for the app. */
  obtained(name: string, more?: { readonly isOwn?: boolean; readonly days?: number }): Promise<string>
}
