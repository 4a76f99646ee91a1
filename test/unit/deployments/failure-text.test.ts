import { expect, it } from 'vitest'
import { DeploymentError, failureOf, withLastLines } from '../../../server/src/features/deployments/failure.ts'

const messageOf = (text: string) => failureOf(new DeploymentError('plan', 'no_start', text), []).message

it('the message of a failure contains no control characters, whatever a repository names its files', () => {
  expect(messageOf('a\u001b[31mb\u009b2Jc\r\u0000\td\ne')).toBe('a[31mb2Jc\td\ne')
})

it('the message of a failure masks the values of variables', () => {
  const error = new DeploymentError('build', 'build_failed', 'It printed: the token is a secret value.')
  expect(failureOf(error, ['a secret value'])).toEqual({ ...error.failure, message: 'It printed: the token is ***.' })
})

it('the message of a failure has a bounded length', () => {
  expect(messageOf('x'.repeat(1_000_000)).length).toBeLessThan(25_000)
})

it('a long trace does not hide the reason before it', () => {
  const frames = (count: number) => Array.from({ length: count }, (_, at) => `\tat app.Main.run(Main.java:${at})`)
  const lines = ['Exception: no address', ...frames(40), 'Caused by: it', ...frames(2), 'The end.']
  expect(withLastLines('It ended.', lines).split('\n')).toEqual([
    'It ended.',
    'Its last output:',
    'Exception: no address',
    ...frames(4),
    '    … 36 more',
    'Caused by: it',
    ...frames(2),
    'The end.',
  ])
  const named = frames(9).map((frame) => `0|app  | ${frame}`)
  expect(withLastLines('It ended.', ['Error', ...named])).toMatch(/Error\n(0\|app .*\n){4} +… 5 more$/)
})
