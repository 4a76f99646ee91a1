import { createHash, randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hasInvisible } from '../../../server/src/contract/invisible.ts'
import { expectNotFound } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'
import { form, upload } from '../../harness/storage.ts'

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
  it('answers 201 with exactly the specified fields, and the file’s address', async () => {
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

  it('accepts a file under any part name and ignores other text parts', async () => {
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

  it('separates two files with the same bytes', async () => {
    const [one, two] = [await put('one.txt', 'same'), await put('two.txt', 'same')]
    await server.client.storage.delete({ params: { project_id: projectId, id: one.id } })
    expect((await fetch(one.url)).status).toBe(404)
    expect(await (await fetch(two.url)).text()).toBe('same')
  })

  it('keeps the declared type, and detects the type of an undeclared one', async () => {
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
  ])('strips folders from the name %j', async (given, name) => {
    expect((await put(given, 'x')).name).toBe(name)
  })

  it('stores and returns any valid name', async () => {
    const names = fc
      .string({ unit: 'binary', minLength: 1, maxLength: 60 })
      .filter((name) => name === name.trim() && name !== '' && !/[\p{Cc}/\\\ufffd]|%(22|0a|0d)|^\.\.?$/iu.test(name))
      .filter((name) => !hasInvisible(name))
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
    ['only a folder', 'folder/'],
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

  it('hides the store from other users of the machine', async () => {
    const { id } = await put('private.txt', 'x')
    const path = join(server.dataDirectory, 'files', id.slice(-2), id)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect((await stat(join(server.dataDirectory, 'files'))).mode & 0o777).toBe(0o700)
    expect((await stat(join(path, '..'))).mode & 0o777).toBe(0o700)
  })

  it('answers the same 404 as for a project that never existed', () =>
    expectNotFound(server, 'storage.upload', { project_id: projectId }))
})
