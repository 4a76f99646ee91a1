import { describe, expect, it } from 'vitest'
import { parseGitmodules, submoduleUrl } from '../../../server/src/sources/submodules.ts'

describe('the address of a submodule', () => {
  it.each([
    ['https://example.com/team/app.git', '../lib.git', 'https://example.com/team/lib.git'],
    ['https://example.com/team/app.git/', '../../other/lib', 'https://example.com/other/lib'],
    ['https://example.com/team/app', './lib', 'https://example.com/team/app/lib'],
    ['git@example.com:team/app.git', '../lib.git', 'git@example.com:team/lib.git'],
    ['git@example.com:app.git', '../lib.git', 'git@example.com:lib.git'],
    ['file:///srv/app', '../lib', 'file:///srv/lib'],
    ['https://example.com/a/b', 'https://other.example/c', 'https://other.example/c'],
  ])('of %s with the url %s is %s', (parent, url, expected) => {
    expect(submoduleUrl(parent, url)).toBe(expected)
  })
})

it('reads paths and addresses by name, and skips submodules that lack one of them', () => {
  const listed = [
    'submodule.lib.path\nlib',
    'submodule.lib.url\n../lib',
    'submodule.a.b.path\ndeep/path',
    'submodule.a.b.url\nhttps://example.com/x',
    'submodule.half.path\nhalf',
    'core.sshcommand\ntouch /tmp/x',
    '',
  ].join('\0')
  expect(parseGitmodules(listed)).toEqual([
    { path: 'lib', url: '../lib' },
    { path: 'deep/path', url: 'https://example.com/x' },
  ])
})
