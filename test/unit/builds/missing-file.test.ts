import { expect, it } from 'vitest'
import { missingFile } from '../../../server/src/builds/plan.ts'
import { tree } from '../../harness/builds/planned.ts'

it('refuses a Python start whose file is missing and not built', () => {
  const refused = missingFile(tree({ 'main.py': '' }), { argv: ['python', 'app.py'] }, false)
  expect(refused).toMatchObject({ code: 'no_start', message: expect.stringContaining('The file "app.py"') })
  expect(refused?.message).toContain('nothing builds it')
})
