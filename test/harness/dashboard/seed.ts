import type { Client } from '@fairlead/server/client'
import { takenSnapshot, untilDatabase } from '../databases.ts'
import { deployAndSettle } from '../deployments.ts'
import { listening } from '../listening.ts'
import type { ServerProcess } from '../process.ts'
import { nodeApp, repository } from '../repository.ts'

/** Data for every page, created through the API. */
export interface Seeded extends AsyncDisposable {
  readonly projectId: string
  readonly appId: string
  readonly runningId: string
  readonly supersededId: string
  readonly failedId: string
  readonly scheduleId: string
  readonly databaseId: string
  readonly webhookId: string
}

/** Creates the data with this client of an account. */
export async function seed(client: Client, server: Pick<ServerProcess, 'clientFor'>): Promise<Seeded> {
  await using cleanup = new AsyncDisposableStack()
  const shop = await client.projects.create({ body: { name: 'Shop', region: 'eu-north-1' } })
  await client.projects.create({ body: { name: 'Internal tools', region: 'eu-north-1' } })
  await client.projects.create({ body: { name: 'Website', region: 'eu-west-2' } })
  const project_id = shop.id
  const params = { project_id }

  const endpoint = cleanup.use(await webhookEndpoint())
  const webhook = await client.webhooks.create({ body: { url: `${endpoint.url}/hooks/fairlead` } })
  await client.webhooks.create({ body: { url: `${endpoint.url}/away`, events: ['deployment.failed'], project_id } })

  const app = cleanup.use(await repository(builtApp('storefront', 1)))
  const broken = cleanup.use(await repository(brokenApp))
  const worker = cleanup.use(await repository(nodeApp('mailer')))
  const [database, first] = await Promise.all([
    client.databases.create({ params, body: { name: 'orders' } }),
    deployAndSettle(client, project_id, { name: 'storefront', git_url: app.url, env_vars: { CURRENCY: 'EUR' } }),
  ])
  await app.commit(builtApp('storefront', 2))
  const second = await deployAndSettle(client, project_id, {
    name: 'storefront',
    git_url: app.url,
    env_vars: { MAIL_FROM: 'shop@example.com' },
    keep_env_vars: ['CURRENCY'],
  })
  const ofApp = { project_id, app_id: second.app_id }
  await client.variables.update({ params: ofApp, body: { set: { LOG_LEVEL: 'info' }, kind: 'plain' } })
  await client.variables.update({ params: ofApp, body: { set: { PAYMENTS_TOKEN: 'a token of payments' } } })
  const command = ['node', '-e', "console.log('42 orders')"]
  const schedule = await client.schedules.create({
    params: ofApp,
    body: { name: 'orders-report', schedule: '30 4 * * 1-5', timezone: 'Europe/Berlin', command },
  })
  const mailer = await deployAndSettle(client, project_id, { name: 'mailer', git_url: worker.url })
  for (let visit = 0; visit < 40; visit++) await (await fetch(mailer.url)).text()
  const failed = await deployAndSettle(client, project_id, { name: 'checkout', git_url: broken.url, branch: 'main' })

  await uploadFiles(client, project_id)
  await createKeys(client, server)
  await untilDatabase(client, project_id, database.id)
  await takenSnapshot(client, project_id, database.id)
  await client.webhooks.test({ params: { id: webhook.id } })
  const owned = cleanup.move()
  return {
    projectId: shop.id,
    appId: second.app_id,
    runningId: second.id,
    supersededId: first.id,
    failedId: failed.id,
    scheduleId: schedule.id,
    databaseId: database.id,
    webhookId: webhook.id,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

async function uploadFiles(client: Client, project_id: string): Promise<void> {
  for (const [name, size, type] of [
    ['catalogue.csv', 184_213, 'text/csv'],
    ['price-list.pdf', 1_482_004, 'application/pdf'],
    ['photos.zip', 6_204_118, 'application/zip'],
  ] as const) {
    const form = new FormData()
    form.append('file', new Blob([new Uint8Array(size)], { type }), name)
    await client.storage.upload({ params: { project_id }, body: form })
  }
}

/** Creates a used, an unused and a revoked key. */
async function createKeys(client: Client, server: Pick<ServerProcess, 'clientFor'>): Promise<void> {
  for (const [name, preset] of [
    ['GitHub Actions', 'deploy'],
    ['Status page', 'read'],
    ['Old laptop', 'full'],
  ] as const) {
    const { id, key } = await client.apiKeys.create({ body: { name, preset, expires_in_days: 90 } })
    if (name === 'GitHub Actions') await server.clientFor(key).projects.list({})
    if (name === 'Old laptop') await client.apiKeys.delete({ params: { id } })
  }
}

/** An app whose build writes coloured lines to the log. */
function builtApp(name: string, version: number): Record<string, string> {
  return {
    'package.json': JSON.stringify({ name, scripts: { build: 'node build.js', start: 'node server.js' } }),
    'build.js': `const pages = ['index', 'basket', 'checkout', 'product', 'search', 'account', 'terms', 'contact']
console.log('\\u001b[1m${name} ${version}.0.0\\u001b[0m')
for (const page of pages) console.log('\\u001b[32m✓\\u001b[0m ' + page + '.html \\u001b[36m' + page.length * 1.7 + ' kB\\u001b[0m')
console.log('\\u001b[33mwarning\\u001b[0m 1 image is larger than 500 kB')
console.log('\\u001b[32mbuilt ' + pages.length + ' pages\\u001b[0m')
`,
    'server.js': `console.log('listening on', process.env.PORT)
require('node:http').createServer((request, response) => {
  console.log(request.method, request.url)
  response.end('${name} ${version}')
}).listen(process.env.PORT)
`,
  }
}

const brokenApp = {
  'package.json': JSON.stringify({ name: 'checkout', scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': `console.log('compiling 14 modules')
console.error("\\u001b[31merror\\u001b[0m src/basket.ts:41: 'total' is not defined")
process.exit(1)
`,
}

/** Accepts webhooks at /hooks/fairlead, and answers 503 elsewhere. */
function webhookEndpoint(): ReturnType<typeof listening> {
  return listening((request, response) => {
    request.resume()
    response.statusCode = request.url === '/hooks/fairlead' ? 204 : 503
    response.end(response.statusCode === 204 ? '' : 'under maintenance')
  })
}
