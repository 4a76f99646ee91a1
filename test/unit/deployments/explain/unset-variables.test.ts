import { expect, it } from 'vitest'
import { nameUnset } from '../../../../server/src/features/deployments/advice.ts'
import { DeploymentError, withLastLines } from '../../../../server/src/features/deployments/failure.ts'

const samples = { file: '.env.example', names: ['DATABASE_URL', 'SECRET'] }
const exited = new DeploymentError('start', 'app_exited', withLastLines('It ended.', ['Error: no address']), [
  { root: 'web', kind: 'node' },
])

it('a failed start names the variables without a value, before the last output', () => {
  const named = nameUnset(exited, { samples }, { SECRET: 'x' }) as DeploymentError
  expect(named.failure).toMatchObject({
    stage: 'start',
    code: 'app_exited',
    suggestions: [{ root: 'web', kind: 'node' }],
  })
  expect(named.message).toMatch(
    /^It ended\. \.env\.example names variables that have no value here: DATABASE_URL\. .*\nIts last output:\nError: no address$/,
  )
})

it('the message names only the first of many variables', () => {
  const names = Array.from({ length: 20 }, (_, at) => `V${at}`)
  const named = nameUnset(exited, { samples: { ...samples, names } }, {}) as DeploymentError
  expect(named.message).toContain('V10, V11 and 8 more.')
})

it.each([
  ['all have values', exited, { samples }, { SECRET: 'x', DATABASE_URL: 'x' }],
  ['the repository has no sample', exited, {}, {}],
  ['the failure has another cause', new DeploymentError('start', 'out_of_memory', 'x'), { samples }, {}],
  ['the error does not come from the deployment', new Error('aborted'), { samples }, {}],
])('the message names no variables where %s', (_, error, plan, variables) => {
  expect(nameUnset(error, plan, variables)).toBe(error)
})
