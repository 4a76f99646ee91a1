import { newId } from '../../../server/src/platform/ids.ts'
import type { Dashboard } from '../../harness/dashboard.ts'
import { freePort } from '../../harness/ports.ts'
import { fairlead } from '../../harness/process.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

/** The settings of a server whose apps have host names. */
export const namedApps = async (): Promise<Readonly<Record<string, string>>> => ({
  FAIRLEAD_APPS_DOMAIN: 'apps.example.net',
  FAIRLEAD_GATEWAY_PORT: String(await freePort()),
})

/** Executes a statement on the database of the server. */
export type Query = (text: string, values: readonly unknown[]) => Promise<readonly unknown[]>

/** Makes a user with an app that has domains in each state, and certificates, without DNS and authorities. */
export async function seedDomains(dashboard: Dashboard, query: Query) {
  const { client } = await dashboard.makeUser()
  const { id: project_id } = await client.projects.create({ body: { name: 'Shop', plan: 'enterprise' } })
  const { key } = await client.apiKeys.create({ body: { name: 'laptop', preset: 'deploy' } })
  await using source = await repository(nodeApp('storefront'))
  const deploy = ['deploy', source.path, '--project', project_id, '--name', 'storefront']
  const deployed = await fairlead(deploy, { FAIRLEAD_URL: dashboard.server.url, FAIRLEAD_API_KEY: key })
  if (deployed.code !== 0) throw new Error(deployed.stderr)
  const [app] = (await client.apps.list({ params: { project_id } })).apps
  const params = { project_id, app_id: app?.id ?? '' }
  const { host } = new URL(app?.url ?? '')
  const ids: Record<string, string> = {}
  for (const { name, redirect = false, status, problems = [] } of domainsAt(host)) {
    const { id } = await client.domains.create({ params, body: { name, redirect } })
    ids[name] = id
    await untilChecked(query, id)
    await query(
      `update domains set status = $2, problems = $3, is_primary = $4, served_since = case when $2 <> 'pending' then now() end,
         checked_at = now(), next_check_at = now() + interval '40 minutes' where id = $1`,
      [id, status, JSON.stringify(problems), name === 'shop.example.com'],
    )
  }
  for (const [name, days, failure] of [
    ['shop.example.com', 71, null],
    ['www.shop.example.com', 8, authorityFailure],
    [host, 64, null],
  ] as const) {
    await addCertificate(query, { ...params, domain_id: ids[name] ?? null, name, days, failure })
  }
  return { ...params, domainId: ids['www.shop.example.com'] ?? '' }
}

const domainsAt = (host: string) => [
  { name: 'shop.example.com', status: 'active' },
  {
    name: 'www.shop.example.com',
    status: 'failing',
    redirect: true,
    problems: [
      {
        code: 'wrong_address',
        severity: 'error',
        message:
          'www.shop.example.com leads to 203.0.113.80, which is not this server (192.0.2.17). Set for www.shop.example.com: ' +
          `CNAME ${host} (or A 192.0.2.17).`,
      },
    ],
  },
  { name: 'bücher.example.com', status: 'pending', problems: [] },
]

const authorityFailure = {
  code: 'unauthorized',
  message: 'The certificate authority got an answer from another server: the name leads elsewhere.',
}

/** The first check of a new domain comes by itself. */
async function untilChecked(query: Query, id: string): Promise<void> {
  const checked = () => query('select from domains where id = $1 and checked_at is not null', [id])
  while ((await checked()).length === 0) await new Promise((resolve) => setTimeout(resolve, 100))
}

interface AddedCertificate {
  readonly project_id: string
  readonly app_id: string
  readonly domain_id: string | null
  readonly name: string
  readonly days: number
  readonly failure: object | null
}

async function addCertificate(query: Query, added: AddedCertificate): Promise<void> {
  const { project_id, app_id, domain_id, name, days, failure } = added
  await query(
    `insert into certificates (id, account_id, project_id, app_id, domain_id, names, source, chain, private_key, issuer, serial,
       not_before, expires_at, attempted_at, next_attempt_at, attempts, failure, alerted_at)
     select $1, id, $2, $3, $4, array[$5], 'automatic', 'a chain', 'sealed', 'Let''s Encrypt E7', '04AF',
       now() - interval '20 days', now() + make_interval(days => $6, hours => 1), now() - interval '3 hours',
       now() + interval '9 hours', case when $7::jsonb is null then 0 else 4 end, $7, case when $7::jsonb is not null then now() end
     from accounts where operator`,
    [
      newId('certificate'),
      project_id,
      app_id,
      domain_id,
      name,
      days,
      failure === null ? null : JSON.stringify(failure),
    ],
  )
}
