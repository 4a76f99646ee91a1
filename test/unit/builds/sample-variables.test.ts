import { expect, test } from 'vitest'
import { type Files, planOf } from '../../harness/builds/planned.ts'

const app = { 'package.json': { scripts: { start: 'node a.js' } } }

const samplesOf = (files: Files) => {
  const result = planOf({ ...app, ...files })
  return result.ok ? result.plan.samples : result.failure
}

test.each<[string, Files, object | undefined]>([
  [
    'a sample file',
    { '.env.example': '# comment\nA=1\nexport B_2 = x\n#C=1\nPORT=3000\n  D=1\nA=2\nNODE_ENV=production' },
    { file: '.env.example', names: ['A', 'B_2'] },
  ],
  [
    'a sample file whose variables have values elsewhere',
    { '.env.sample': 'A=\nB=', '.env': 'A=1' },
    { file: '.env.sample', names: ['B'] },
  ],
  ["a sample file of Fairlead's own variables", { '.env.template': 'PORT=80' }, undefined],
  [
    'app.json',
    {
      'app.json': {
        env: {
          A: { description: 'x' },
          B: 'value',
          C: { value: '1' },
          D: { generator: 'secret' },
          E: { required: false },
        },
      },
    },
    { file: 'app.json', names: ['A'] },
  ],
  ['an invalid app.json', { 'app.json': '[' }, undefined],
  ['nothing', {}, undefined],
])('finds the variables in %s that need a value', (_, files, samples) => {
  expect(samplesOf(files)).toEqual(samples)
})

test("reads the app's folder", () => {
  const files = { 'fairlead.json': { root: 'api' }, 'api/app.js': '', 'api/.env.example': 'A=', '.env.example': 'B=' }
  const result = planOf({ ...files, 'api/package.json': { scripts: { start: 'node app.js' } } })
  expect(result.ok && result.plan.samples).toEqual({ file: '.env.example', names: ['A'] })
})
