import { execFile } from 'node:child_process'
import { mkdir, readdir, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { ownRoot, ownVersion } from '../../../server/src/platform/package-files.ts'
import type { VersionDescription } from '../../../server/src/platform/versions/versions.ts'
import { commandHere } from '../../harness/command-here.ts'
import { testDatabase } from '../../harness/database.ts'
import { fairlead, serverProcess } from '../../harness/process.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { packedVersion } from '../../harness/versions.ts'

const self = await fairlead(['self-check'])
const own = JSON.parse(self.stdout) as VersionDescription

/** A later version, with one additional migration that only adds. */
function later(version: string, change: Partial<VersionDescription> = {}): VersionDescription {
  return { ...own, version, migrations: [...own.migrations, { name: '0900-next' }], ...change }
}

async function dataDirectory() {
  const directory = await temporaryDirectory()
  const { path } = directory
  const linked = (name: string) => readlink(join(path, 'versions', name)).catch(() => null)
  return {
    path,
    update: (...args: string[]) => commandHere(['update', ...args, '--data-dir', path]),
    linked,
    links: async () => [await linked('current'), await linked('previous')],
    folders: async () => (await readdir(join(path, 'versions')).catch(() => [])).filter((name) => /^[\d.]/.test(name)),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  }
}

const placeOf = (version: string) => `${version}/node_modules/@fairlead/server`

describe('fairlead update', () => {
  it('keeps the previous version beside the new one, returns to it, and removes earlier ones', async () => {
    await using data = await dataDirectory()
    const files = []
    for (const version of ['1.0.0', '1.1.0', '1.2.0']) files.push(await packedVersion(data.path, later(version)))
    const [one = '', two = '', three = ''] = files

    const first = await data.update(one)
    expect(first).toMatchObject({
      code: 0,
      stdout: 'Version 1.0.0 is the current one; start the server again to use it\n',
    })
    // The way back leads to this version's folder.
    expect(await data.links()).toEqual([placeOf('1.0.0'), ownRoot])

    expect((await data.update(two)).code).toBe(0)
    expect(await data.links()).toEqual([placeOf('1.1.0'), placeOf('1.0.0')])
    expect((await data.update(three)).code).toBe(0)
    expect(await data.links()).toEqual([placeOf('1.2.0'), placeOf('1.1.0')])
    expect(await data.folders()).toEqual(['1.1.0', '1.2.0'])

    expect(await data.update('--back')).toMatchObject({ code: 0, stdout: expect.stringContaining('Version 1.1.0') })
    expect(await data.links()).toEqual([placeOf('1.1.0'), placeOf('1.2.0')])
    // A version that is still installed is not installed again.
    expect((await data.update('1.2.0')).code).toBe(0)
    expect(await data.links()).toEqual([placeOf('1.2.0'), placeOf('1.1.0')])
    expect((await data.update(three)).stderr).toBe('fairlead: Version 1.2.0 is the current one already.\n')
  })

  it('refuses an archive whose version would lead out of the folder of versions', async () => {
    await using data = await dataDirectory()
    const kept = join(data.path, 'kept')
    await mkdir(kept)
    for (const [name, version] of Object.entries({ outside: '../kept', link: 'current' })) {
      const source = join(data.path, name, 'package')
      await mkdir(source, { recursive: true })
      await writeFile(join(source, 'package.json'), JSON.stringify({ name: '@fairlead/server', version }))
      const archive = join(data.path, `${name}.tgz`)
      await promisify(execFile)('tar', ['czf', archive, '-C', join(data.path, name), 'package'])
      expect(await data.update(archive)).toMatchObject({
        code: 1,
        stderr: `fairlead: ${archive} holds a package whose version is not a number such as 1.2.3.\n`,
      })
    }
    expect(await readdir(data.path)).toContain('kept')
    expect(await data.links()).toEqual([null, null])
    expect(await data.folders()).toEqual([])
  })

  it('also installs the server’s packages from archives', async () => {
    await using data = await dataDirectory()
    const receiver = await packedVersion(data.path, later('0.9.0'), { name: '@fairlead/receiver' })
    const server = await packedVersion(data.path, later('1.0.0'))
    expect((await data.update(receiver, server)).code).toBe(0)
    const packages = await readdir(join(data.path, 'versions', '1.0.0', 'node_modules', '@fairlead'))
    expect(packages).toEqual(['receiver', 'server'])
  })

  it('--check reports what a version would change, and keeps nothing', async () => {
    await using data = await dataDirectory()
    const settings = [...own.settings.filter((name) => name !== 'FAIRLEAD_LOG_LEVEL'), 'FAIRLEAD_NEW']
    const { code, stdout } = await data.update('--check', await packedVersion(data.path, later('1.0.0', { settings })))
    expect(stdout).toBe(
      [
        `version: 1.0.0 (now ${ownVersion})`,
        'migrations: 0900-next',
        'while the server runs: yes',
        'way back: stays open',
        'new settings: FAIRLEAD_NEW',
        'removed settings: FAIRLEAD_LOG_LEVEL',
        'problems: none',
        '',
      ].join('\n'),
    )
    expect(code).toBe(0)
    expect(await readdir(join(data.path, 'versions'))).toEqual([])
  })

  it.each<[string, string, string | undefined, Partial<VersionDescription>]>([
    ['that ends at once', 'cannot find itself', "throw new Error('cannot find itself')", {}],
    ['from before updates existed', 'does not say what it needs', "console.log('no JSON')", {}],
    [
      'that refuses the settings',
      'FAIRLEAD_X is not a setting',
      undefined,
      { problems: ['FAIRLEAD_X is not a setting'] },
    ],
  ])('leaves everything unchanged for a version %s', async (_, reason, program, change) => {
    await using data = await dataDirectory()
    expect((await data.update(await packedVersion(data.path, later('1.0.0')))).code).toBe(0)
    const before = [await data.links(), await data.folders()]
    const broken = await packedVersion(data.path, later('1.1.0', change), program === undefined ? {} : { program })
    const { code, stderr } = await data.update(broken)
    expect(stderr).toContain(reason)
    expect(code).toBe(1)
    expect([await data.links(), await data.folders()]).toEqual(before)
    expect(await readdir(join(data.path, 'versions'))).toEqual(['1.0.0', 'current', 'previous'])
  })

  it('does not return to a version that cannot work on the schema', async () => {
    await using data = await dataDirectory()
    const migrations = [...own.migrations, { name: '0900-next', oldestServer: '0900-next' }]
    expect((await data.update(await packedVersion(data.path, later('1.0.0', { migrations })))).code).toBe(0)
    const { code, stderr } = await data.update('--back')
    expect(stderr).toContain(`The way back to ${ownVersion} is closed`)
    expect(code).toBe(1)
    expect(await data.linked('current')).toBe(placeOf('1.0.0'))
  })

  it('refuses archives without a server, and prints npm’s message', async () => {
    await using data = await dataDirectory()
    const other = await packedVersion(data.path, later('1.0.0'), { name: '@fairlead/other' })
    expect((await data.update(other)).stderr).toContain('does not hold the package @fairlead/server')
    const broken = join(data.path, 'package.tgz')
    await writeFile(broken, 'no archive')
    expect((await data.update(broken)).stderr).toMatch(/npm could not install .*package\.tgz:\n.*TAR/s)
    expect(await readdir(join(data.path, 'versions'))).toEqual([])
  })
})

it('a server of another version than the current one names the right command', async () => {
  await using data = await dataDirectory()
  expect((await data.update(await packedVersion(data.path, later('1.0.0')))).code).toBe(0)
  await using database = await testDatabase()
  await using server = await serverProcess(data.path, { DATABASE_URL: database.url })
  const warning = server.log.find(({ current }) => current === '1.0.0')
  expect(warning).toMatchObject({
    level: 40,
    msg: expect.stringContaining(
      `start it with node ${join(data.path, 'versions', 'current', 'bin', 'fairlead.js')} serve`,
    ),
  })
})
