import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { describeOwn, reportChange } from '../../../server/src/commands/update.ts'
import { compareVersions, type VersionDescription } from '../../../server/src/platform/versions/versions.ts'
import { commandHere } from '../../harness/command-here.ts'
import { prefix } from '../../harness/temporary.ts'

let own: VersionDescription
beforeAll(async () => {
  own = await describeOwn({})
})

/** A later version, with one additional migration that only adds. */
const later = (version: string, change: Partial<VersionDescription> = {}): VersionDescription => ({
  ...own,
  version,
  migrations: [...own.migrations, { name: '0900-next' }],
  ...change,
})

describe('the change to another version', () => {
  it('has a way back from an older version, and none for an older version that is too old', () => {
    const contracted = [...own.migrations, { name: '0900-contract', oldestServer: '0900-contract' }]
    const newer = later('1.0.0', { migrations: contracted })
    expect(compareVersions(newer, own)).toMatchObject({ wayBack: true, besideEachOther: false, migrations: [] })
    expect(compareVersions(later('1.0.0'), own)).toMatchObject({ wayBack: true, besideEachOther: true })
    expect(compareVersions(own, { ...own, version: '9.9.9' })).toMatchObject({ wayBack: true, besideEachOther: true })
  })

  it('closes the way back when a migration requires servers that know it', () => {
    const migrations = [...own.migrations, { name: '0900-next', oldestServer: '0900-next' }]
    const change = compareVersions(own, later('1.0.0', { migrations }))
    expect(change).toMatchObject({ wayBack: false, besideEachOther: false })
    const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
    reportChange(change)
    const said = String(write.mock.calls[0]?.[0])
    write.mockRestore()
    expect(said).toContain('way back: closes')
    expect(said).toContain('while the server runs: no')
  })
})

describe('fairlead update', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), prefix))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it.each([
    [['--back'], 'There is no previous version'],
    [[], 'Name a version'],
    [['--back', '1.0.0'], '--back takes no version'],
    [['1.0.0', '1.1.0'], 'Name one version'],
    [['npm:other@1.0.0'], 'is not a version in the npm registry'],
    [['missing.tgz'], 'There is no file missing.tgz'],
  ])('%j is refused', async (args, reason) => {
    const { code, stderr } = await commandHere(['update', ...args, '--data-dir', folder])
    expect(stderr).toContain(reason)
    expect(code).toBe(1)
  })
})
