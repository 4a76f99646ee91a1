import { afterAll, beforeAll, expect, it } from 'vitest'
import { connectionBudget } from '../../../server/src/platform/database/connection-budget.ts'
import { inTheMiddle } from '../../harness/in-the-middle.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const ask = async (method: string, path: string, body?: FormData) => {
  const headers = { authorization: `Bearer ${given.server.apiKey}` }
  const answer = await fetch(`${given.server.url}/v1/projects/${path}`, { method, headers, body: body ?? null })
  return answer.status
}

function file(): FormData {
  const form = new FormData()
  form.set('file', new File(['x'], 'x'))
  return form
}

it('a project is deleted although uploads that wait for that have all other connections to the database', async () => {
  const { id } = await given.client.projects.create({ body: { name: 'p' } })
  const { url } = given.server.database
  const others = connectionBudget.requests.poolSize - 1
  // The deletion waits for the test, and the uploads wait behind the deletion.
  const locked = (own: typeof given.server.database) => own.query('select from projects where id = $1 for update', [id])
  let deleting: Promise<number> | undefined
  const waiting = () =>
    given.server.database.query(`select from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like '%"projects"%'`)
  const statuses = await inTheMiddle(
    { url },
    async (own) => {
      await locked(own)
      deleting = ask('DELETE', id)
      await expect.poll(async () => (await waiting()).length).toBe(1)
    },
    () => [
      deleting ?? Promise.reject(),
      ...Array.from({ length: others }, () => ask('POST', `${id}/storage/upload`, file())),
    ],
  )
  expect(statuses).toEqual([204, ...Array.from({ length: others }, () => 404)])
})
