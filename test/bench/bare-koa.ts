import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Router } from '@koa/router'
import Koa from 'koa'
import koaBody from 'koa-body'
import { Pool } from 'pg'
import { newId } from '../../server/src/platform/ids.ts'

/**
 * A server for comparison, without API keys, rate limits and a log: `node bare-koa.ts <connection as JSON> <account> <other account>`.
 * Its routes execute one query for the first account, or the inserts of one creation for the other. Prints its address.
 */
const [connection = '{}', accountId = '', otherId = ''] = process.argv.slice(2)
const pool = new Pool({ max: 20, ...(JSON.parse(connection) as object) })

const router = new Router()
router.get('/projects/:id', async (ctx) => {
  const { rows } = await pool.query(
    `select id, name, region, plan, created_at,
       (select count(*) from deployments where project_id = projects.id)::int as deployments,
       (select count(*) from databases where project_id = projects.id and status <> 'deleting')::int as databases,
       coalesce((select bytes from storage_usage where project_id = projects.id), 0)::float8 as bytes
     from projects where id = $1 and account_id = $2 and status = 'active'`,
    [ctx.params['id'], accountId],
  )
  const { deployments, databases, bytes, ...project } = rows[0]
  ctx.body = { ...project, resources: { deployments, databases, storage_gb: bytes / 1e9 } }
})
router.post('/projects', koaBody(), async (ctx) => {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query(
      `insert into projects (id, account_id, name, region, plan, status) values ($1, $2, $3, 'local', 'free', 'active')
       returning id, name, region, plan, created_at`,
      [newId('project'), otherId, (ctx.request.body as { name: string }).name],
    )
    await client.query(
      `insert into audit_entries (id, account_id, actor_type, operation, resource_id)
       values ($1, $2, 'key', 'projects.create', $3)`,
      [newId('auditEntry'), otherId, rows[0].id],
    )
    await client.query('commit')
    ctx.status = 201
    ctx.body = rows[0]
  } finally {
    client.release()
  }
})

const app = new Koa()
app.use(router.routes())
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
