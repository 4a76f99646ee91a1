import { createHash, randomBytes } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { ApiError } from '@fairlead/server/client'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type TestServer, testServer } from '../harness/server.ts'
import { filesOnDisk, form, plansFile, upload } from '../harness/storage.ts'

let server: TestServer
let projectId: string
beforeAll(async () => {
  server = await testServer()
  projectId = (await server.client.projects.create({ body: { name: 'Files' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

const put = (name: string, content: string | Uint8Array<ArrayBuffer>, type?: string) =>
  upload(server.client, projectId, name, content, type)
const get = (id: string) => server.client.storage.get({ params: { project_id: projectId, id } })

describe('POST /projects/:project_id/storage/upload', () => {
  it('answers 201 with exactly the specified fields, and where the file can be read', async () => {
    const response = await fetch(`${server.baseUrl}/projects/${projectId}/storage/upload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.apiKey}` },
      body: form('report.txt', 'hello'),
    })
    expect(response.status).toBe(201)
    const body = (await response.json()) as Record<string, string>
    expect(Object.keys(body).sort()).toEqual(['id', 'name', 'size', 'uploaded_at', 'url'])
    expect(body).toMatchObject({ name: 'report.txt', size: 5 })
    expect(body['id']).toMatch(/^file_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
    expect(body['uploaded_at']).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(body['url']).toMatch(new RegExp(`^${server.url}/files/${body['id']}/[\\w-]{32}$`))
    expect(response.headers.get('location')).toBe(`/v1/projects/${projectId}/storage/files/${body['id']}`)
    expect(await (await fetch(body['url'] as string)).text()).toBe('hello')
  })

  it('keeps bytes, size and hash of files of any size', async () => {
    for (const size of [0, 1, 65_535, 65_536, 3_000_001]) {
      const content = new Uint8Array(randomBytes(size))
      const { id, url } = await put('data.bin', content)
      const sha256 = createHash('sha256').update(content).digest('hex')
      expect(await get(id)).toMatchObject({ size, sha256 })
      expect(Buffer.compare(Buffer.from(await (await fetch(url)).arrayBuffer()), content)).toBe(0)
    }
  })

  it('takes a file under any part name and ignores other text parts', async () => {
    const body = new FormData()
    body.append('note', 'ignored')
    body.append('whatever[]', new Blob(['x']), 'a.txt')
    const made = await server.client.storage.upload({ params: { project_id: projectId }, body })
    expect(made).toMatchObject({ name: 'a.txt', size: 1 })
  })

  it.each([
    ['before', true],
    ['behind', false],
  ])('renames the file by a text part "name" %s it', async (_, before) => {
    const body = new FormData()
    if (before) body.append('name', 'Übersicht 漢.pdf')
    body.append('file', new Blob(['x']), 'a.txt')
    if (!before) body.append('name', 'Übersicht 漢.pdf')
    const made = await server.client.storage.upload({ params: { project_id: projectId }, body })
    expect(made.name).toBe('Übersicht 漢.pdf')
  })

  it('keeps two files with the same bytes apart', async () => {
    const [one, two] = [await put('one.txt', 'same'), await put('two.txt', 'same')]
    await server.client.storage.delete({ params: { project_id: projectId, id: one.id } })
    expect((await fetch(one.url)).status).toBe(404)
    expect(await (await fetch(two.url)).text()).toBe('same')
  })

  it('keeps the declared type, and finds one for a file that declares none', async () => {
    const png = new Uint8Array(Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'))
    expect(await get((await put('a.html', png, 'text/html')).id)).toMatchObject({ content_type: 'text/html' })
    expect(await get((await put('a.png', png, 'nonsense')).id)).toMatchObject({ content_type: 'image/png' })
    expect(await get((await put('a', 'text', 'nonsense')).id)).toMatchObject({
      content_type: 'application/octet-stream',
    })
    const [row] = await server.database.query('select declared_type, detected_type from files where name = $1', [
      'a.html',
    ])
    expect(row).toEqual({ declared_type: 'text/html', detected_type: 'image/png' })
  })

  it.each([
    ['../../etc/passwd', 'passwd'],
    ['..\\..\\boot.ini', 'boot.ini'],
    ['C:\\Users\\me\\a b.txt', 'a b.txt'],
    [' padded.txt ', 'padded.txt'],
    ['say "hi".txt', 'say "hi".txt'],
    ['.hidden', '.hidden'],
    ['100%.txt', '100%.txt'],
  ])('strips folders of the name %j', async (given, name) => {
    expect((await put(given, 'x')).name).toBe(name)
  })

  it('keeps and gives back any name that is one', async () => {
    const names = fc
      .string({ unit: 'binary', minLength: 1, maxLength: 60 })
      .filter((name) => name === name.trim() && name !== '' && !/[\p{Cc}/\\]|%(22|0a|0d)|^\.\.?$/iu.test(name))
    await fc.assert(
      fc.asyncProperty(names, async (name) => {
        const made = await put(name, 'x')
        expect(made.name).toBe(name)
        const disposition = (await fetch(made.url, { method: 'HEAD' })).headers.get('content-disposition') ?? ''
        const extended = /filename\*=UTF-8''([^;]+)/.exec(disposition)?.[1]
        const plain = /filename="((?:[^"\\]|\\.)*)"/.exec(disposition)?.[1]?.replace(/\\(.)/g, '$1')
        const bare = /filename=([^";]+)$/.exec(disposition)?.[1]
        expect(extended === undefined ? (plain ?? bare) : decodeURIComponent(extended)).toBe(name)
      }),
      { numRuns: 60 },
    )
  })

  it.each([
    ['a control character', 'a\u0007b'],
    ['a line break', 'a\nb.txt'],
    ['nothing but a folder', 'folder/'],
    ['..', '..'],
    ['more than 255 bytes', '漢'.repeat(86)],
  ])('refuses a name with %s', async (_, name) => {
    await expect(put(name, 'x')).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'name' } })
    const body = form('good.txt', 'x')
    body.append('name', name)
    const renamed = server.client.storage.upload({ params: { project_id: projectId }, body })
    await expect(renamed).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'name' } })
  })

  it('counts the bytes of the project exactly', async () => {
    const project = await server.client.projects.create({ body: { name: 'Counted' } })
    const made = await upload(server.client, project.id, 'a', 'x'.repeat(1234))
    await upload(server.client, project.id, 'b', 'x'.repeat(1))
    const storage = async () =>
      (await server.client.projects.get({ params: { project_id: project.id } })).resources.storage_gb
    expect(await storage()).toBe(1235 / 1e9)
    await server.client.storage.delete({ params: { project_id: project.id, id: made.id } })
    expect(await storage()).toBe(1 / 1e9)
  })

  it('announces the file in the transaction of its row', async () => {
    const made = await put('announced.txt', 'hello')
    const events = await server.database.query<{ body: string }>(
      `select body from events where type = 'file.uploaded' and body like $1`,
      [`%${made.id}%`],
    )
    expect(events.map(({ body }) => JSON.parse(body))).toEqual([
      {
        event: 'file.uploaded',
        timestamp: expect.any(String),
        data: { file_id: made.id, project_id: projectId, name: 'announced.txt', size: 5, url: made.url },
      },
    ])
  })

  it('keeps what is on the disk from other users', async () => {
    const { id } = await put('private.txt', 'x')
    const path = join(server.dataDirectory, 'files', id.slice(-2), id)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect((await stat(join(server.dataDirectory, 'files'))).mode & 0o777).toBe(0o700)
    expect((await stat(join(path, '..'))).mode & 0o777).toBe(0o700)
  })

  it('needs the right to write files, and to the project', async () => {
    const reader = server.clientFor(await server.key({ preset: 'read' }))
    await expect(upload(reader, projectId, 'a', 'x')).rejects.toMatchObject({ code: 'forbidden' })
    const other = await server.accounts.create({ name: 'other', plan: 'free' })
    const stranger = server.clientFor(await server.key({ accountId: other.id }))
    await expect(upload(stranger, projectId, 'a', 'x')).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('files of a project', () => {
  it('are listed newest first and in pages, read and deleted', async () => {
    const { id: project_id } = await server.client.projects.create({ body: { name: 'Listed' } })
    const made = []
    for (const name of ['a', 'b', 'c']) made.unshift(await upload(server.client, project_id, name, name))
    const all = await server.client.storage.list({ params: { project_id } })
    expect(all.total).toBe(3)
    expect(all.files.map(({ content_type, sha256, ...file }) => file)).toEqual(made)
    const pages = []
    for await (const page of server.client.storage.list.pages({ params: { project_id }, query: { limit: 2 } })) {
      pages.push(page.files.map(({ name }) => name))
    }
    expect(pages).toEqual([['c', 'b'], ['a']])

    const params = { project_id, id: made[0]?.id ?? '' }
    expect(await server.client.storage.get({ params })).toEqual(all.files[0])
    await server.client.storage.delete({ params })
    for (const ask of [server.client.storage.get, server.client.storage.delete]) {
      await expect(ask({ params })).rejects.toMatchObject({ code: 'not_found' })
    }
    expect((await server.client.storage.list({ params: { project_id } })).total).toBe(2)
  })

  it('are not seen from another project', async () => {
    const { id } = await put('mine.txt', 'x')
    const other = await server.client.projects.create({ body: { name: 'Other' } })
    const params = { project_id: other.id, id }
    await expect(server.client.storage.get({ params })).rejects.toMatchObject({ code: 'not_found' })
    await expect(server.client.storage.delete({ params })).rejects.toMatchObject({ code: 'not_found' })
    expect((await get(id)).name).toBe('mine.txt')
  })

  it('are gone from the disk when deleted', async () => {
    const { id } = await put('gone.txt', 'x')
    expect(await filesOnDisk(server.dataDirectory)).toContain(id)
    await server.client.storage.delete({ params: { project_id: projectId, id } })
    await vi.waitFor(async () => expect(await filesOnDisk(server.dataDirectory)).not.toContain(id))
    await vi.waitFor(async () => expect(await readdir(join(server.dataDirectory, 'files', 'doubtful'))).toEqual([]))
  })
})

describe('limits', () => {
  const megabyte = 1_000_000
  let small: TestServer
  let plans: Awaited<ReturnType<typeof plansFile>>
  beforeAll(async () => {
    plans = await plansFile({ storage_gb: 0.004, file_mb: 2 })
    small = await testServer({ FAIRLEAD_PLANS_FILE: plans.path })
  })
  afterAll(async () => {
    await small[Symbol.asyncDispose]()
    await plans[Symbol.asyncDispose]()
  })
  const newProject = async () => (await small.client.projects.create({ body: { name: 'Small' } })).id

  it('takes a file of exactly the largest size and refuses one byte more', async () => {
    const id = await newProject()
    expect((await upload(small.client, id, 'a', 'x'.repeat(2 * megabyte))).size).toBe(2 * megabyte)
    await expect(upload(small.client, id, 'b', 'x'.repeat(2 * megabyte + 1))).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field: 'file', max_bytes: 2 * megabyte },
    })
  })

  it('refuses by the length alone what cannot fit, before it is sent', async () => {
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

  it('never lets uploads exceed the storage of a project together', async () => {
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
    // What was refused has given its room back.
    const rest = 4 * megabyte - kept * 1.5 * megabyte
    await upload(small.client, project, 'rest', 'x'.repeat(Math.min(rest, 2 * megabyte)))
  })

  it('gives room back when a file is deleted', async () => {
    const project = await newProject()
    const first = await upload(small.client, project, 'a', 'x'.repeat(2 * megabyte))
    await upload(small.client, project, 'b', 'x'.repeat(2 * megabyte))
    await expect(upload(small.client, project, 'c', 'x')).rejects.toMatchObject({ details: { max_bytes: 0 } })
    expect((await upload(small.client, project, 'empty', '')).size).toBe(0)
    await small.client.storage.delete({ params: { project_id: project, id: first.id } })
    expect((await upload(small.client, project, 'c', 'x'.repeat(2 * megabyte))).size).toBe(2 * megabyte)
  })

  it('leaves nothing of what was refused', async () => {
    const rows = await small.database.query<{ id: string }>('select id from files')
    expect((await filesOnDisk(small.dataDirectory)).sort()).toEqual(rows.map((row) => row.id).sort())
  })
})
