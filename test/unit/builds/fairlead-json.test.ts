import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { fairleadJson } from '../../../server/src/builds/fairlead-json.ts'
import { failure, planned, planOf, start } from '../../harness/builds/planned.ts'

const scheduled = (command: string[]) => ({ name: 'a', schedule: '* * * * *', command })

describe('a fairlead.json', () => {
  test('sets the folder of the app', () => {
    const files = {
      'fairlead.json': { root: './apps/web/' },
      'apps/web/package.json': start('node a.js', { build: 'b' }),
      'pnpm-lock.yaml': '',
      'index.html': '',
    }
    expect(planned(files)).toEqual({
      kind: 'node',
      build: ['pnpm install --frozen-lockfile --prod=false', 'fairlead-in apps/web pnpm run build'],
      start: ['fairlead-in', 'apps/web', 'node', 'a.js'],
    })
    expect(planned({ ...files, 'apps/web/package-lock.json': '' }).build[0]).toBe(
      'fairlead-in apps/web npm ci --include=dev',
    )
  })

  test('sets commands as lists of words, without a shell', () => {
    const files = {
      'fairlead.json': { build: ['make', 'a b'], start: ['./serve', '$PORT'], health: '/up?deep=1' },
      Procfile: 'release: migrate',
      'package.json': start('node a.js', { build: 'b' }),
      'package-lock.json': '',
    }
    expect(planned(files)).toEqual({
      kind: 'command',
      build: ['npm ci --include=dev', 'make a b'],
      start: ['./serve', '$PORT'],
    })
    const result = planOf(files)
    expect(result.ok && result.plan).toMatchObject({ health: '/up?deep=1', build: [{}, { argv: ['make', 'a b'] }] })
  })

  test.each([
    [{ root: '../x' }, '"root" must be a path inside the repository'],
    [{ root: '/etc' }, '"root" must be a path inside the repository'],
    [{ root: '' }, '"root" must be a path inside the repository'],
    [{ root: 'missing' }, '"root" is not a folder'],
    [{ start: 'node server.js' }, '"start" must be a list of words'],
    [{ start: [] }, '"start" must have at least one word'],
    [{ build: ['a', 1] }, '"build.1" must be a string'],
    [{ build: ['a\0'] }, '"build.0" must not contain a NUL character'],
    [{ start: ['\ud800'] }, '"start.0" must be well-formed Unicode'],
    [{ cron: [scheduled(['\ud800'])] }, '"cron.0.command.0" must be well-formed Unicode'],
    [{ cron: [scheduled([''])] }, '"cron.0.command" must name a program'],
    [{ health: 'up' }, '"health" must be a path'],
    [{ health: '//elsewhere' }, '"health" must be a path'],
    [{ health: '/a b' }, '"health" must be a path'],
    [
      { port: 80 },
      '"port" is not known (known are $schema, root, build, start, health, processes, cron, builder, dockerfile, read_only, volumes)',
    ],
    [{ start: ['a'], processes: { constructor: {} } }, '"processes.constructor" has no "command"'],
    [{ volumes: ['/data'] }, '"volumes" must be paths by names'],
    [{ volumes: { data: 1 } }, '"volumes.data" must be an absolute path'],
    [{ volumes: { 'My Data': '/data' } }, '"volumes.My Data" has a name that is not of lower-case letters'],
    [
      { volumes: Object.fromEntries('abcdefghi'.split('').map((name) => [name, `/${name}`])) },
      '"volumes" must be at most 8',
    ],
    [{ volumes: { data: 'data' } }, '"volumes.data" must be an absolute path'],
    [{ volumes: { data: '/' } }, '"volumes.data" must be an absolute path'],
    [{ volumes: { data: '/data/' } }, '"volumes.data" must be an absolute path'],
    [{ volumes: { data: '/data/../etc' } }, '"volumes.data" must be an absolute path'],
    [{ volumes: { data: '/data/.' } }, '"volumes.data" must be an absolute path'],
    [{ volumes: { data: '/data,ro' } }, '"volumes.data" must be an absolute path'],
    [{ volumes: { data: '/da\0ta' } }, '"volumes.data" must be an absolute path'],
    [{ volumes: { data: `/${'a'.repeat(200)}` } }, '"volumes.data" must be an absolute path'],
    [{ volumes: { data: '/proc' } }, '"volumes.data" must not be in /proc'],
    [{ volumes: { data: '/sys/fs' } }, '"volumes.data" must not be in /sys'],
    [{ volumes: { data: '/dev/shm' } }, '"volumes.data" must not be in /dev'],
    [{ volumes: { data: '/etc/ssl' } }, '"volumes.data" must not be in /etc'],
    [{ volumes: { data: '/var/run/docker' } }, '"volumes.data" must not be in /var/run'],
    [{ volumes: { data: '/var/lib' } }, '"volumes.data" must not be /var/lib itself'],
    [{ volumes: { data: '/.fairlead-enter' } }, '"volumes.data" must not be a path of Fairlead'],
    [{ volumes: { a: '/data', b: '/data/b' } }, '"volumes.a" must not hold the volume "b"'],
    [{ volumes: { a: '/data', b: '/data' } }, '"volumes.a" must not hold the volume "b", or be at its path'],
    [{ root: 1, health: 2 }, '"root" must be a path inside the repository; "health" must be a path'],
  ])('with %j is an error that names the key', (settings, message) => {
    expect(failure({ 'fairlead.json': settings, 'index.html': '' })).toEqual({
      code: 'invalid_fairlead_json',
      message: expect.stringContaining(message),
    })
  })

  test('limits schedules as the API does', () => {
    const problem = (cron: object[]) => failure({ 'fairlead.json': { cron }, 'index.html': '' })?.message
    expect(problem([scheduled(Array(201).fill('a'))])).toContain('"cron.0.command" must have at most 200 words')
    expect(problem([scheduled(['a'.repeat(32_769)])])).toContain('"cron.0.command" must have at most 32768 characters')
    expect(problem(Array(21).fill(scheduled(['a'])))).toContain('"cron" must have at most 20 schedules')
  })

  test.each(['[]', 'null', '"a"'])('with %s is an error', (text) => {
    expect(failure({ 'fairlead.json': text, 'index.html': '' })?.message).toBe('fairlead.json must hold a JSON object.')
  })

  test('with a syntax error fails with its line and column', () => {
    expect(failure({ 'fairlead.json': '{\n  root: "x" }' })?.message).toBe(
      'fairlead.json is not valid JSON: see line 2, column 3.',
    )
  })

  test('names volumes for apps of every kind', () => {
    const volumes = { uploads: '/var/lib/uploads', 'app-data': '/usr/src/app/data' }
    const files = { 'fairlead.json': { volumes, start: ['./serve'] } }
    const result = planOf(files)
    expect(result.ok && result.plan.volumes).toEqual(volumes)
  })

  test('has a published schema', async () => {
    const schema = z.toJSONSchema(fairleadJson(), { io: 'input' })
    await expect(`${JSON.stringify(schema, null, 2)}\n`).toMatchFileSnapshot(
      '../../../server/assets/fairlead.schema.json',
    )
  })
})
