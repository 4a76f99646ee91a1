import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { prefix } from '../../harness/temporary.ts'

/** A package of the registry: its files by version. */
export type Packages = Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, string>>>>>>

export interface FakeRegistry extends AsyncDisposable {
  readonly url: string
  /** The paths of all requests so far. */
  readonly requests: string[]
  /** The archive of a version. */
  archive(name: string, version: string): Promise<Buffer>
  /** `stall` begins archives and never ends them; `damage` sends archives that do not match the hashes. */
  behave(how: 'well' | 'stall' | 'damage'): void
  /** Resolves at the next request for an archive. */
  asked(): Promise<void>
  close(): Promise<void>
}

/** Serves packages as the npm registry does, on loopback. */
export async function fakeRegistry(packages: Packages): Promise<FakeRegistry> {
  const folder = await mkdtemp(join(tmpdir(), prefix))
  const requests: string[] = []
  let mode: 'well' | 'stall' | 'damage' = 'well'
  let waiting = Promise.withResolvers<void>()
  const archive = (name: string, version: string) => pack(folder, packages[name]?.[version] ?? {}, name, version)

  const answer = async (path: string): Promise<Buffer | null> => {
    const [, name = '', version] = /^\/(.+?)(?:\/-\/(.+)\.tgz)?$/.exec(decodeURIComponent(path)) ?? []
    const versions = packages[name]
    if (versions === undefined) return null
    if (version === undefined)
      return Buffer.from(JSON.stringify(await packument(name, Object.keys(versions), url, archive)))
    return versions[version] === undefined ? null : archive(name, version)
  }
  const server = createServer(async ({ url: path = '' }, response) => {
    requests.push(path)
    const body = await answer(path)
    const isArchive = path.endsWith('.tgz')
    if (isArchive) waiting.resolve()
    if (body === null) response.writeHead(404).end('{}')
    else if (!isArchive || mode === 'well') response.end(body)
    else if (mode === 'damage') response.end(Buffer.from('no archive'))
    else response.writeHead(200, { 'content-length': body.length }).write(body.subarray(0, 10))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const close = async () => {
    server.closeAllConnections()
    if (server.listening) await new Promise((done) => server.close(done))
  }
  return {
    url,
    requests,
    archive,
    behave(how) {
      mode = how
      waiting = Promise.withResolvers()
    },
    asked: () => waiting.promise,
    close,
    async [Symbol.asyncDispose]() {
      await close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function packument(name: string, versions: readonly string[], url: string, archive: FakeRegistry['archive']) {
  const entries = versions.map(async (version) => {
    const integrity = `sha512-${createHash('sha512')
      .update(await archive(name, version))
      .digest('base64')}`
    return [version, { name, version, dist: { tarball: `${url}/${name}/-/${version}.tgz`, integrity } }] as const
  })
  return { name, 'dist-tags': { latest: versions.at(-1) }, versions: Object.fromEntries(await Promise.all(entries)) }
}

/** Returns the archive of a package; its executables are the files in `bin/`. */
async function pack(folder: string, files: Readonly<Record<string, string>>, name: string, version: string) {
  const top = join(folder, `${name.replace('/', '-')}-${version}`)
  const file = `${top}.tgz`
  const made = await readFile(file).catch(() => null)
  if (made !== null) return made
  const all = { 'package.json': JSON.stringify({ name, version }), ...files }
  for (const [path, content] of Object.entries(all)) {
    await mkdir(dirname(join(top, 'package', path)), { recursive: true })
    await writeFile(join(top, 'package', path), content, { mode: path.startsWith('bin/') ? 0o755 : 0o644 })
  }
  await promisify(execFile)('tar', ['-czf', file, '-C', top, 'package'])
  return readFile(file)
}
