import { describe, expect, test } from 'vitest'
import { failure, planned, planOf, start } from '../../harness/builds/planned.ts'

describe('a Python app', () => {
  const pip = '.venv/bin/python -m pip install --no-input'

  test.each([
    ['only its file', { 'main.py': '' }, ['python3 -m venv --without-pip .venv']],
    [
      'an empty requirements.txt',
      { 'app.py': '', 'requirements.txt': '# none\n\n' },
      ['python3 -m venv --without-pip .venv'],
    ],
    [
      'a requirements.txt',
      { 'app.py': '', 'requirements.txt': 'flask\n' },
      ['python3 -m venv .venv', `${pip} -r requirements.txt`],
    ],
    [
      'a package',
      { 'app.py': '', 'pyproject.toml': '[build-system]\nrequires = ["hatchling"]\n' },
      ['python3 -m venv .venv', `${pip} .`],
    ],
    [
      'a list of dependencies',
      { 'app.py': '', 'pyproject.toml': '[project]\ndependencies = ["flask>=3", "--index-url=x"]\n' },
      ['python3 -m venv .venv', `${pip} -- flask>=3 --index-url=x`],
    ],
    [
      'only settings of tools',
      { 'app.py': '', 'pyproject.toml': '[tool.ruff]\n' },
      ['python3 -m venv --without-pip .venv'],
    ],
  ])('with %s is built in a virtual environment', (_, files, build) => {
    expect(planned(files)).toEqual({
      kind: 'python',
      build,
      start: ['python', 'main.py' in files ? 'main.py' : 'app.py'],
    })
  })

  test('runs with unbuffered output', () => {
    const result = planOf({ 'main.py': '' })
    expect(result.ok && result.plan.start.env).toMatchObject({ PYTHONUNBUFFERED: '1' })
  })

  test('with a Procfile and a package.json starts by the Procfile and is built by both', () => {
    expect(
      planned({ Procfile: 'web: gunicorn a:b', 'requirements.txt': 'x', 'package.json': start('x', { build: 'b' }) }),
    ).toEqual({
      kind: 'procfile',
      build: ['python3 -m venv .venv', `${pip} -r requirements.txt`, 'npm run build'],
      start: ['/bin/sh', '-c', 'gunicorn a:b'],
    })
  })

  test('without a start, with a broken file, or without Python on the host fails and says so', () => {
    expect(failure({ 'requirements.txt': 'x' })).toMatchObject({
      code: 'no_start',
      message: expect.stringContaining('main.py'),
    })
    expect(failure({ 'main.py': '', 'pyproject.toml': '[a]\nb = ?' })).toEqual({
      code: 'invalid_pyproject',
      message: 'pyproject.toml is not valid TOML: see line 2, column 5.',
    })
    const without = planOf({ 'main.py': '' }, { programs: new Set() })
    expect(without).toMatchObject({ ok: false, failure: { code: 'python_missing' } })
  })
})
