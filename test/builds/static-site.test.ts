import { describe, expect, test } from 'vitest'
import { planned } from './planned.ts'

describe('a static site', () => {
  test.each([
    [{ 'index.html': '', 'public/index.html': '' }, '.'],
    [{ 'public/index.html': '', 'dist/index.html': '' }, 'public'],
    [{ 'dist/index.html': '' }, 'dist'],
    [{ 'index.html': '', 'package.json': { devDependencies: { prettier: '3' } } }, '.'],
  ])('%j is served from %j', (files, folder) => {
    expect(planned(files)).toEqual({ kind: 'static', build: [], start: ['fairlead-static', folder] })
  })

  test('with a build script is served from the folder that the build fills', () => {
    const files = { 'package.json': { scripts: { build: 'vite build' } }, 'index.html': '', 'package-lock.json': '' }
    expect(planned(files)).toEqual({
      kind: 'static',
      build: ['npm ci --include=dev', 'npm run build'],
      start: ['fairlead-static', 'dist', 'build', 'out', 'public'],
    })
  })
})
