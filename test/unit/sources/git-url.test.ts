import { describe, expect, it } from 'vitest'
import { branchProblem, parseGitUrl } from '../../../server/src/sources/git-url.ts'

const parse = (url: string, allowFile = false) => parseGitUrl(url, { allowFile })

describe('a git address', () => {
  it.each([
    ['https://example.com/team/app.git', { protocol: 'https', host: 'example.com', port: 443 }],
    ['http://127.0.0.1:8080/app', { protocol: 'http', host: '127.0.0.1', port: 8080 }],
    ['https://[::1]/app', { protocol: 'https', host: '[::1]', port: 443 }],
    ['ssh://git@example.com:2222/team/app.git', { protocol: 'ssh', host: 'example.com', port: 2222 }],
    ['git@example.com:team/app.git', { protocol: 'ssh', host: 'example.com', port: 22 }],
    ['example.com:app.git', { protocol: 'ssh', host: 'example.com', port: 22 }],
  ])('%s is accepted with its host and port', (url, source) => {
    expect(parse(url)).toEqual({ url, ...source })
  })

  it('reaches git in the form in which its host was checked', () => {
    expect(parse('HTTPS://EXAMPLE.com:443/a/../App.git')).toMatchObject({
      url: 'https://example.com/App.git',
      host: 'example.com',
    })
  })

  it('of a local repository is accepted where local repositories are allowed', () => {
    const url = 'file:///srv/app'
    expect(parse(url, true)).toEqual({ url, protocol: 'file', host: null, port: null })
    expect(parse(url)).toMatchObject({ field: 'git_url', message: expect.not.stringContaining('file:') })
  })

  it.each([
    ['https://user:password@example.com/a', 'must not carry a user name or password'],
    ['https://example.com/', 'names a host, but no repository'],
    ['https://-x.example.com/a', 'names no valid host'],
    ['ssh://-x@example.com/a', 'names no valid user'],
    ['https://example.com\\a', 'must not contain a backslash'],
    ['https://example.com/a b', 'must be an address without spaces or control characters'],
    ['git://example.com/a', 'must be one of the forms'],
    ['git@example.com:-x', 'must be one of the forms'],
    ['ssh://example.com/-x', 'must be one of the forms'],
  ])('%j is refused because it %s', (url, message) => {
    expect(parse(url)).toEqual({ field: 'git_url', message: expect.stringContaining(message) })
  })
})

describe('the name of a branch', () => {
  it.each(['main', 'feature/a-b_c.d', 'ü', 'a@b', 'HEAD'])('may be %j', (branch) => {
    expect(branchProblem(branch)).toBeUndefined()
  })

  it.each(['', '@', '-x', '/a', 'a/', 'a.', 'a..b', 'a//b', 'a@{1}', 'a b', 'a~1', 'a/.b', 'a.lock/b', '\ud800'])(
    'may not be %j',
    (branch) => {
      expect(branchProblem(branch)).toBe('must be the name of a branch')
    },
  )
})
