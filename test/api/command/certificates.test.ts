import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithCertificates, serverWithCertificates, uploadOf } from '../../harness/certificates.ts'
import { commandHere } from '../../harness/command-here.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let given: ServerWithCertificates
let folder: Awaited<ReturnType<typeof temporaryDirectory>>
beforeAll(async () => {
  folder = await temporaryDirectory()
  given = await serverWithCertificates()
})
afterAll(async () => {
  await given?.[Symbol.asyncDispose]()
  await folder?.[Symbol.asyncDispose]()
})

const run = (...args: string[]) =>
  commandHere(['certificates', ...args], { FAIRLEAD_URL: given.server.url, FAIRLEAD_API_KEY: given.server.apiKey })

async function fileWith(name: string, text: string): Promise<string> {
  const path = join(folder.path, name)
  await writeFile(path, text)
  return path
}

describe('fairlead certificates', { timeout: 120_000 }, () => {
  it('uploads a certificate from files, and says what is wrong with it', async () => {
    const { certificate, private_key } = await uploadOf({ names: ['www.example.com', '*.example.com'] })
    const other = await uploadOf({ names: ['other.example.com'] })
    const files = [await fileWith('fullchain.pem', certificate), await fileWith('privkey.pem', private_key)] as const
    const wrong = await run('upload', files[0], await fileWith('other.pem', other.private_key))
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('is not the private key') })
    const missing = await run('upload', files[0], join(folder.path, 'none.pem'))
    expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining('There is no file') })
    const uploaded = await run('upload', ...files, '--project', 'p')
    const line = /^cert_\w+\twww\.example\.com,\*\.example\.com\tuploaded\tvalid\tuntil \S+Z\t\n$/
    expect(uploaded).toMatchObject({ code: 0, stdout: expect.stringMatching(line) })
    expect((await run('list')).stdout).toMatch(line)
    const renewed = await run('renew', 'www.example.com')
    expect(renewed.stderr).toContain('The server obtains no certificate for www.example.com.')
  })

  it('renews a certificate by a name or its id', async () => {
    const id = await given.obtained('shop.example.org')
    expect(await run('renew', 'shop.example.org')).toMatchObject({ code: 0, stdout: expect.stringContaining(id) })
    const due = await given.server.database.query(
      'select from certificates where id = $1 and next_attempt_at <= now()',
      [id],
    )
    expect(due).toHaveLength(1)
    expect(await run('renew', id)).toMatchObject({ code: 0 })
  })
})
