import { newId } from '../../server/src/platform/ids.ts'
import { withKey } from './conformance.ts'
import { freePort } from './ports.ts'
import { ownServerWithProject } from './project.ts'

export type ServerWithApps = Awaited<ReturnType<typeof serverWithApps>>

/**
 * Starts a server whose apps have host names, with two apps of one project that have no release. The names have no DNS
 * records; other tests cover DNS.
 */
export async function serverWithApps(settings: Readonly<Record<string, string>> = {}) {
  const given = await ownServerWithProject({
    FAIRLEAD_APPS_DOMAIN: 'apps.example.net',
    FAIRLEAD_GATEWAY_PORT: String(await freePort()),
    ...settings,
  })
  const { server, client, projectId } = given
  const appIds = [newId('app'), newId('app')]
  for (const id of appIds) {
    await server.database.query('insert into apps (id, project_id, name, hostname) values ($1, $2, $1, $3)', [
      id,
      projectId,
      `${id}.apps.example.net`,
    ])
  }
  const paramsOf = (app: 0 | 1) => ({ project_id: projectId, app_id: appIds[app] ?? '' })
  return {
    ...given,
    caller: withKey(server, server.apiKey),
    /** The app, by default the first. */
    app: (app: 0 | 1 = 0) => paramsOf(app),
    add: (name: string, more: { redirect?: boolean; app?: 0 | 1 } = {}) =>
      client.domains.create({ params: paramsOf(more.app ?? 0), body: { name, redirect: more.redirect ?? false } }),
    /** Verifies a domain, as a check of its DNS would. */
    async verify(id: string): Promise<void> {
      await server.database.query(
        "update domains set status = 'active', served_since = now(), next_check_at = null where id = $1",
        [id],
      )
    },
    [Symbol.asyncDispose]: () => given[Symbol.asyncDispose](),
  }
}
