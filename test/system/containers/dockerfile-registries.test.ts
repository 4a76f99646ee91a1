import { readdir, readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { servicesIn } from '../../../server/src/runtimes/network/reach.ts'
import type { RegistryCredentials } from '../../../server/src/runtimes/runtime.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { noRegistry, registryAccount, startRegistry, type TestRegistry } from '../../harness/registry.ts'
import {
  baseImage,
  type Fixture,
  fixture,
  frontEndLabel,
  noDockerfiles,
  runIn,
} from '../../harness/runtimes/docker/dockerfiles.ts'

const why = (await noDockerfiles()) ?? (await noRegistry())
if (why !== null) skipped('builds of Dockerfiles with images of private registries', why)

interface TokenRegistry extends AsyncDisposable {
  readonly host: string
  /** The token requests by account. */
  readonly asked: string[]
}

/** Answers for a registry as Docker Hub does: it gives tokens to everybody, and private images only to the account. */
async function withTokens(registry: TestRegistry): Promise<TokenRegistry> {
  const { username, password } = registryAccount
  const basic = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  const asked: string[] = []
  const isAccount = async (asking: IncomingMessage) => {
    const form = new URLSearchParams(Buffer.concat(await asking.toArray()).toString())
    return asking.headers.authorization === basic || form.get('password') === password
  }
  const server = createServer(async (asking, answer) => {
    const { url = '', method, headers } = asking
    if (url.startsWith('/token')) {
      const may = await isAccount(asking)
      if (may) asked.push(`${method} token`)
      const token = may ? 'of-the-account' : 'of-nobody'
      return void answer.end(JSON.stringify({ token, access_token: token }))
    }
    if (headers.authorization !== 'Bearer of-the-account') {
      const error = headers.authorization === undefined ? '' : ',error="insufficient_scope"'
      const scope = 'service="test",scope="repository:team/base:pull"'
      const challenge = `Bearer realm="http://${headers.host}/token",${scope}${error}`
      return void answer.writeHead(401, { 'www-authenticate': challenge }).end()
    }
    const [hostname, port] = registry.host.split(':')
    request({ hostname, port, path: url, method, headers: { ...headers, authorization: '' } }, (response) => {
      answer.writeHead(response.statusCode ?? 500, response.headers)
      response.pipe(answer)
    }).end()
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
    },
  }
}

describe.skipIf(why !== null)('a Dockerfile', () => {
  const stack = new AsyncDisposableStack()
  let docker: Fixture
  let guarded: TestRegistry
  let tokens: TokenRegistry
  let image: string

  beforeAll(async () => {
    guarded = stack.use(await startRegistry({ asksForAccount: true }))
    const open = stack.use(await startRegistry())
    tokens = stack.use(await withTokens(open))
    // Builds reach them like the operator's mirrors.
    const mirrors = servicesIn([`http://${guarded.host}`, `http://${tokens.host}`])
    docker = stack.use(await fixture({ reach: { mirrors } }))
    await open.push(docker.engine, baseImage, 'team/base:1')
    const front = await docker.build({ Dockerfile: `LABEL ${frontEndLabel}\nENTRYPOINT ["bash", "-c", "exit 42"]` })
    await guarded.push(docker.engine, baseImage, 'team/base:1')
    await guarded.push(docker.engine, `fairlead/test:${front.release}`, 'team/front:1')
    image = `${guarded.host}/team/base:1`
  }, 180_000)
  afterAll(() => stack.disposeAsync(), 60_000)

  const own = (given: RegistryCredentials = registryAccount) => ({ credentials: { [guarded.host]: given } })
  const denied = { name: 'RuntimeError', code: 'image_denied' }

  it('begins with an image of a private registry, and copies from one, with the credentials of the project', async () => {
    const built = await docker.build({ Dockerfile: `FROM ${image}\nRUN echo of the base > /it` }, own())
    expect(built.log).not.toContain(registryAccount.password)
    expect(built).toMatchObject({ code: 0 })
    expect(await runIn(docker.engine, built.release, ['cat', '/it'])).toBe('of the base\n')
    const copied = await docker.build({ Dockerfile: `COPY --from=${image} /bin/cat /cat` }, own())
    expect(copied).toMatchObject({ code: 0 })
  })

  it('begins with an image of a registry that exchanges the project’s credentials for tokens', async () => {
    const Dockerfile = `FROM ${tokens.host}/team/base:1\nRUN true`
    await expect(docker.build({ Dockerfile })).rejects.toMatchObject({
      code: 'image_not_found',
      message: expect.stringContaining(`or set credentials for the project: fairlead registries add ${tokens.host}`),
    })
    expect(tokens.asked).toEqual([])
    const credentials = { [tokens.host]: registryAccount }
    expect(await docker.build({ Dockerfile }, { credentials })).toMatchObject({ code: 0 })
    expect(tokens.asked.length).toBeGreaterThan(0)
  })

  it('leaves no credentials in the daemon’s data for the next build', async () => {
    await docker.build({ Dockerfile: `FROM ${image}\nRUN true` }, own())
    const entries = await readdir(docker.folder, { recursive: true, withFileTypes: true })
    const files = entries.filter((entry) => entry.isFile())
    expect(files.length).toBeGreaterThan(10)
    const { username, password } = registryAccount
    const encoded = Buffer.from(`${username}:${password}`).toString('base64')
    for (const { parentPath, name } of files) {
      const bytes = await readFile(join(parentPath, name))
      expect([name, bytes.includes(password), bytes.includes(encoded)]).toEqual([name, false, false])
    }
  })

  it('is read by a front end of a private registry with the credentials of the project', async () => {
    const syntax = { Dockerfile: `# syntax=${guarded.host}/team/front:1\nFROM ${image}` }
    expect(await docker.build(syntax, own())).toMatchObject({ code: 42, image: null })
    await expect(docker.build(syntax)).rejects.toMatchObject(denied)
  })

  it.each([
    ['FROM', () => `FROM ${image}`],
    ['COPY', () => `COPY --from=${image} /bin/cat /cat`],
  ])('without credentials says which registry requires them, by %s', async (_, Dockerfile) => {
    await expect(docker.build({ Dockerfile: Dockerfile() })).rejects.toMatchObject({
      ...denied,
      message: expect.stringContaining(
        `asks for credentials. Set them for the project: fairlead registries add ${guarded.host}`,
      ),
    })
  })

  it('reports that a registry is unreachable, or lacks the image', async () => {
    await expect(docker.build({ Dockerfile: 'FROM registry.invalid/team/base:1' })).rejects.toMatchObject({
      code: 'registry_unreachable',
      message: expect.stringContaining('The registry of registry.invalid/team/base:1 could not be reached'),
    })
    const none = `${guarded.host}/team/base:none`
    await expect(docker.build({ Dockerfile: `FROM ${none}` }, own())).rejects.toMatchObject({
      code: 'image_not_found',
      message: expect.stringContaining(`The registry has no image ${none}`),
    })
  })

  it('gets no credentials of another registry, nor of another port', async () => {
    const [name = ''] = guarded.host.split(':')
    const credentials = { [name]: registryAccount, [`${name}:1`]: registryAccount, 'docker.io': registryAccount }
    await expect(docker.build({ Dockerfile: `FROM ${image}` }, { credentials })).rejects.toMatchObject(denied)
  })

  it('with refused credentials reports this, without the credentials', async () => {
    const wrong = own({ ...registryAccount, password: 'of-somebody-else' })
    const error = await docker.build({ Dockerfile: `FROM ${image}` }, wrong).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ ...denied, message: expect.stringContaining('refuses the credentials') })
    expect(String(error)).not.toContain('of-somebody-else')
  })

  it('whose credentials were removed does not begin with its cached image', async () => {
    const Dockerfile = `FROM ${image}\nRUN true`
    expect(await docker.build({ Dockerfile }, { ...own(), app: 'app_cached' })).toMatchObject({ code: 0 })
    await expect(docker.build({ Dockerfile }, { app: 'app_cached' })).rejects.toMatchObject(denied)
  })
})
