import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithImages, serverWithImages } from '../../harness/image-server.ts'
import { fairlead } from '../../harness/process.ts'
import { digestOf } from '../../harness/runtimes/example-images.ts'

let given: ServerWithImages
beforeAll(async () => {
  given = await serverWithImages()
  given.registry.commands.set(digestOf('1'), ['node', 'app.js', 'listens'])
  given.registry.tags.set('registry.example/team/shop:1', digestOf('1'))
})
afterAll(() => given?.[Symbol.asyncDispose]())

const run = (args: readonly string[], input = '') =>
  fairlead(args, { FAIRLEAD_URL: given.server.url, FAIRLEAD_API_KEY: given.server.apiKey }, { input })

describe('fairlead', { timeout: 120_000 }, () => {
  it('deploys an image as an app of its name', async () => {
    const { code, stdout, stderr } = await run(['deploy', '--image', 'registry.example/team/shop:1', '--project', 'p'])
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('shop runs after') })
    const { serving } = await given.appNamed('shop')
    expect(serving?.image).toEqual({ reference: 'registry.example/team/shop:1', digest: digestOf('1') })
    expect((await fetch(stdout.trim())).status).toBe(200)
  })

  it('says what is wrong with a reference, and with another source beside it', async () => {
    const wrong = await run(['deploy', '--image', 'Shop', '--project', 'p'])
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('--image must be in lower case') })
    const both = await run(['deploy', '--image', 'shop', '--branch', 'main'])
    expect(both).toMatchObject({ code: 1, stderr: expect.stringContaining('--image has its own source') })
  })

  it('stores, lists and removes credentials for registries', async () => {
    const add = ['registries', 'add', 'registry.example', '--username', 'deploy']
    expect((await run(add)).stderr).toContain('on standard input')
    expect(await run(add, 'a token that may pull\n')).toMatchObject({ code: 0, stdout: '' })
    const { stdout } = await run(['registries', 'list', '--project', 'p'])
    expect(stdout).toMatch(/^registry\.example\tdeploy\tsince 2\S+Z\n$/)
    expect(await run(['registries', 'remove', 'registry.example'])).toMatchObject({ code: 0 })
    const gone = await run(['registries', 'remove', 'registry.example'])
    expect(gone.stderr).toContain('no credentials for registry.example')
  })
})
