import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { disagreements, notesOf } from '../../../scripts/release/agreement.ts'
import { root } from './installation.ts'

const changelog =
  '# Changelog\n\n## [Unreleased]\n\n- later\n\n## [1.2.3] - 2026-01-02\n\n### Added\n\n- this\n\n## [1.2.2] - 2026-01-01\n'
const release = {
  tag: 'v1.2.3',
  versions: { 'receiver/package.json': '1.2.3', 'server/package.json': '1.2.3' },
  receiver: '1.2.3',
  changelog,
}

describe('a release', () => {
  it('is valid when tag, packages and changelog have the same version', () => {
    expect(disagreements(release)).toEqual([])
    expect(notesOf(changelog, '1.2.3')).toBe('### Added\n\n- this')
  })

  it.each([
    ['a tag that is not a version', { tag: 'v1.2' }, 'v1.2 is not a version'],
    ['a tag of another version', { tag: 'v1.2.4' }, 'Set it to 1.2.4'],
    ['a package of another version', { versions: { 'server/package.json': '1.2.2' } }, 'has version 1.2.2'],
    ['a package without a version', { versions: { 'server/package.json': undefined } }, 'Set it to 1.2.3'],
    ['a server that wants another receiver', { receiver: '1.2.2' }, 'depends on version 1.2.2'],
    ['a version that the changelog lacks', { changelog: '## [Unreleased]\n' }, 'has no section'],
    ['a version without a date', { changelog: '## [1.2.3]\n\n- this\n' }, 'has no date'],
    ['a version without changes', { changelog: '## [1.2.3] - 2026-01-02\n\n' }, 'is empty'],
  ])('is refused for %s', (_, change, why) => {
    expect(disagreements({ ...release, ...change }).join('\n')).toContain(why)
  })

  it('would be valid now, but for a missing date', () => {
    const check = (tag: string) =>
      spawnSync(process.execPath, ['scripts/release/check.ts', tag], { cwd: root, encoding: 'utf8' })
    const [current] = /\d+\.\d+\.\d+/.exec(check('v999.0.0').stderr) ?? []
    const problems = check(`v${current}`)
      .stderr.split('\n')
      .filter((line) => !line.includes('has no date'))
    expect(problems.join('')).toBe('')
    expect(check('v999.0.0').status).toBe(1)
  })
})
