import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine } from '../../server/src/runtimes/docker/client.ts'
import { encodeAuth } from '../../server/src/runtimes/docker/images.ts'
import { readJsonLines } from '../../server/src/runtimes/docker/streams.ts'
import { freePort } from './ports.ts'
import { temporaryDirectory } from './temporary.ts'

/** A registry of images on loopback, which engines reach by HTTP. */
export interface TestRegistry extends AsyncDisposable {
  /** The beginning of references: `127.0.0.1:31234`. */
  readonly host: string
  /** Pushes an image of an engine under a name such as `shop:1`, and returns its digest. */
  push(engine: Engine, image: string, name: string): Promise<string>
}

const program = '/usr/bin/docker-registry'

/** The only account of a registry that asks for credentials. */
export const registryAccount = { username: 'fairlead', password: 'a secret' }
/** The account's line in a file of htpasswd, with bcrypt at its lowest cost. */
const htpasswd = 'fairlead:$2y$04$l69Jp.DFR1V7w3rz3s8zQeKIcFGuvzWqBY.j1LxjlPDqP.sbzHwLy\n'

/** Returns why no registry can start here; null when one can. */
export const noRegistry = (): Promise<string | null> =>
  access(program).then(
    () => null,
    () => `${program} is missing`,
  )

/** @param options.asksForAccount true for a registry that accepts only `registryAccount` */
export async function startRegistry({ asksForAccount = false } = {}): Promise<TestRegistry> {
  await using cleanup = new AsyncDisposableStack()
  const { path } = cleanup.use(await temporaryDirectory())
  const host = `127.0.0.1:${await freePort()}`
  const accounts = join(path, 'htpasswd')
  await writeFile(accounts, htpasswd)
  const config = {
    version: '0.1',
    log: { level: 'error', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(path, 'data') } },
    http: { addr: host },
    ...(asksForAccount && { auth: { htpasswd: { realm: 'test', path: accounts } } }),
  }
  // JSON is YAML as well.
  await writeFile(join(path, 'config.yml'), JSON.stringify(config))
  const registry = spawn(program, ['serve', join(path, 'config.yml')], { stdio: 'ignore' })
  cleanup.defer(async () => {
    if (registry.exitCode !== null || !registry.kill('SIGKILL')) return
    await once(registry, 'exit')
  })
  await untilAnswering(`http://${host}/v2/`, () => registry.exitCode !== null)
  const owned = cleanup.move()
  return {
    host,
    push: (engine, image, name) => push(engine, image, `${host}/${name}`),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

async function untilAnswering(url: string, hasEnded: () => boolean): Promise<void> {
  while (
    !(await fetch(url).then(
      () => true,
      () => false,
    ))
  ) {
    if (hasEnded()) throw new Error('the registry has ended')
    await sleep(20)
  }
}

async function push(engine: Engine, image: string, name: string): Promise<string> {
  const at = name.lastIndexOf(':')
  const [repo, tag] = [name.slice(0, at), name.slice(at + 1)]
  await engine.call({ method: 'POST', path: ['images', image, 'tag'], query: { repo, tag } })
  const answer = await engine.open({
    method: 'POST',
    path: ['images', repo, 'push'],
    query: { tag },
    headers: { 'x-registry-auth': encodeAuth(registryAccount) },
    timeoutMs: 0,
  })
  let digest: string | undefined
  for await (const { aux, error } of readJsonLines<{ aux?: { Digest?: string }; error?: string }>(answer)) {
    if (error !== undefined) throw new Error(error)
    digest = aux?.Digest ?? digest
  }
  await engine.call({ method: 'DELETE', path: ['images', name] })
  if (digest === undefined) throw new Error(`${name} was pushed without a digest`)
  return digest
}
