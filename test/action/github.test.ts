import { describe, expect, test } from 'vitest'
import { branchOf, repositoryOf } from '../../action/src/github.ts'

describe('repository', () => {
  test('is made of the server and the repository of the workflow', () => {
    expect(repositoryOf({ GITHUB_SERVER_URL: 'https://github.com', GITHUB_REPOSITORY: 'acme/shop' })).toEqual({
      gitUrl: 'https://github.com/acme/shop.git',
      name: 'shop',
    })
  })

  test('is found on an own server with a slash at its end', () => {
    const env = { GITHUB_SERVER_URL: 'https://git.example.com/', GITHUB_REPOSITORY: 'acme/shop' }
    expect(repositoryOf(env)?.gitUrl).toBe('https://git.example.com/acme/shop.git')
  })

  test.each([{}, { GITHUB_REPOSITORY: 'acme/shop' }, { GITHUB_SERVER_URL: 'https://github.com' }])(
    'is not guessed from %j',
    (env) => {
      expect(repositoryOf(env)).toBeUndefined()
    },
  )
})

describe('branch', () => {
  test.each([
    ['a push', { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_REF_TYPE: 'branch' }, 'main'],
    ['a push to a branch in a folder', { GITHUB_REF: 'refs/heads/fix/a', GITHUB_REF_NAME: 'fix/a' }, 'fix/a'],
    ['a name alone', { GITHUB_REF_NAME: 'main', GITHUB_REF_TYPE: 'branch' }, 'main'],
    [
      'a branch that is named like a merge ref',
      { GITHUB_REF: 'refs/heads/1/merge', GITHUB_REF_NAME: '1/merge' },
      '1/merge',
    ],
    [
      'a pull request',
      {
        GITHUB_REF: 'refs/pull/7/merge',
        GITHUB_REF_NAME: '7/merge',
        GITHUB_REF_TYPE: 'branch',
        GITHUB_HEAD_REF: 'fix',
      },
      'fix',
    ],
  ])('of %s is found', (_, env, branch) => {
    expect(branchOf(env)).toEqual({ branch })
  })

  test.each([
    ['a tag', { GITHUB_REF: 'refs/tags/v1', GITHUB_REF_NAME: 'v1', GITHUB_REF_TYPE: 'tag' }, 'the tag v1'],
    ['a tag by its type alone', { GITHUB_REF_NAME: 'v1', GITHUB_REF_TYPE: 'tag' }, 'the tag v1'],
    ['a merge ref', { GITHUB_REF: 'refs/pull/7/merge', GITHUB_REF_NAME: '7/merge' }, 'refs/pull/7/merge'],
    ['a merge ref by its name alone', { GITHUB_REF_NAME: '7/merge', GITHUB_REF_TYPE: 'branch' }, '7/merge'],
    ['no workflow', {}, 'names no branch'],
  ])('of %s does not exist', (_, env, reason) => {
    expect(branchOf(env)).toEqual({ problem: expect.stringContaining(reason) })
  })
})
