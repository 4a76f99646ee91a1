import { request } from 'node:http'
import { ApiError } from '@fairlead/server/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ownServer, type TestServer } from '../harness/server.ts'
import { filesOnDisk, plansFile, upload } from '../harness/storage.ts'

const megabyte = 1_000_000
let small: TestServer
let plans: Awaited<ReturnType<typeof plansFile>>
beforeAll(async () => {
  plans = await plansFile({ storage_gb: 0.004, file_mb: 2 })
  small = await ownServer({ FAIRLEAD_PLANS_FILE: plans.path })
})
afterAll(async () => {
  await small[Symbol.asyncDispose]()
  await plans[Symbol.asyncDispose]()
})
const newProject = async () => (await small.client.projects.create({ body: { name: 'Small' } })).id

it('accepts a file of exactly the largest size and refuses one byte more', async () => {
  const id = await newProject()
  expect((await upload(small.client, id, 'a', 'x'.repeat(2 * megabyte))).size).toBe(2 * megabyte)
  await expect(upload(small.client, id, 'b', 'x'.repeat(2 * megabyte + 1))).rejects.toMatchObject({
    code: 'invalid_request',
    details: { field: 'file', max_bytes: 2 * megabyte },
  })
})

it('refuses an upload that cannot fit by its length, before it is sent', async () => {
  const id = await newProject()
  const answer = await new Promise<{ status: number; body: string }>((done, fail) => {
    const outgoing = request(`${small.baseUrl}/projects/${id}/storage/upload`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${small.apiKey}`,
        'content-type': 'multipart/form-data; boundary=b',
        'content-length': 10 * megabyte,
      },
    })
    outgoing.on('error', fail)
    outgoing.on('response', async (response) => {
      const body = Buffer.concat(await response.toArray()).toString()
      outgoing.destroy()
      done({ status: response.statusCode ?? 0, body })
    })
    outgoing.flushHeaders()
  })
  expect(answer.status).toBe(400)
  expect(JSON.parse(answer.body)).toMatchObject({ error: { details: { field: 'file', max_bytes: 2 * megabyte } } })
})

it('never lets concurrent uploads exceed the storage of a project', async () => {
  const project = await newProject()
  const uploads = await Promise.allSettled(
    Array.from({ length: 8 }, (_, at) => upload(small.client, project, `${at}`, 'x'.repeat(1.5 * megabyte))),
  )
  const kept = uploads.filter(({ status }) => status === 'fulfilled').length
  expect(kept).toBeLessThanOrEqual(2)
  for (const result of uploads) {
    if (result.status === 'rejected') {
      expect(result.reason).toBeInstanceOf(ApiError)
      expect(result.reason).toMatchObject({ code: 'invalid_request', details: { max_bytes: expect.any(Number) } })
    }
  }
  const { total } = await small.client.storage.list({ params: { project_id: project } })
  expect(total).toBe(kept)
  // Refused uploads have freed their space.
  const rest = 4 * megabyte - kept * 1.5 * megabyte
  await upload(small.client, project, 'rest', 'x'.repeat(Math.min(rest, 2 * megabyte)))
})

it('frees space when a file is deleted', async () => {
  const project = await newProject()
  const first = await upload(small.client, project, 'a', 'x'.repeat(2 * megabyte))
  await upload(small.client, project, 'b', 'x'.repeat(2 * megabyte))
  await expect(upload(small.client, project, 'c', 'x')).rejects.toMatchObject({ details: { max_bytes: 0 } })
  expect((await upload(small.client, project, 'empty', '')).size).toBe(0)
  await small.client.storage.delete({ params: { project_id: project, id: first.id } })
  expect((await upload(small.client, project, 'c', 'x'.repeat(2 * megabyte))).size).toBe(2 * megabyte)
})

it('leaves nothing of refused uploads', async () => {
  const rows = await small.database.query<{ id: string }>('select id from files')
  const onDisk = async () => (await filesOnDisk(small.dataDirectory)).sort()
  await expect.poll(onDisk).toEqual(rows.map((row) => row.id).sort())
})
