import { describe, expect, it } from 'vitest'
import { detectors } from '../../../server/src/builds/detectors/index.ts'
import { type BuilderFacts, chooseBuilder, type PlanOptions, planBuild } from '../../../server/src/builds/plan.ts'
import { type Files, tree } from '../../harness/builds/planned.ts'

const programs = new Set<string>()
const withDocker: PlanOptions = { programs, images: true, before: null }
const plan = (files: Files, options: PlanOptions = withDocker) => planBuild(tree(files), detectors, options)

const node = { 'package.json': { scripts: { start: 'node server.js' } }, 'server.js': '' }
const dockerfile = 'FROM scratch'
const image = (path = 'Dockerfile', target: string | null = null, context = '.') => ({ path, target, context })

describe('the choice of a builder', () => {
  const facts: BuilderFacts = {
    asked: undefined,
    namesCommands: false,
    hasDockerfile: true,
    images: true,
    canBuildImages: true,
    before: null,
    detected: 'node',
  }

  it.each([
    ['a new app with a Dockerfile', {}, 'dockerfile'],
    ['a new app with commands in fairlead.json', { namesCommands: true }, 'detected'],
    ['an app that was built as node before', { before: 'node' }, 'detected'],
    ['an app that was built by its Dockerfile before', { before: 'dockerfile' }, 'dockerfile'],
    ['an app that was an image before', { before: 'image' }, 'dockerfile'],
    ['an app that has only a Dockerfile now', { before: 'node', detected: null }, 'dockerfile'],
    ['an app on a server without containers', { images: false }, 'detected'],
    ['a new app on a server that builds no Dockerfiles', { canBuildImages: false }, 'detected'],
    ['an app with only a Dockerfile on this server', { canBuildImages: false, detected: null }, 'dockerfile'],
    [
      'an app with an earlier Dockerfile build on this server',
      { canBuildImages: false, before: 'dockerfile' },
      'dockerfile',
    ],
    ['an app without a Dockerfile', { hasDockerfile: false, detected: null }, 'detected'],
    ['an old app whose owner asks for the Dockerfile', { before: 'node', asked: 'dockerfile' }, 'dockerfile'],
    ['a new app whose owner asks for no Dockerfile', { asked: 'detected' }, 'detected'],
  ] as const)('for %s', (_, given: Partial<BuilderFacts>, builder) => {
    expect(chooseBuilder({ ...facts, ...given }).builder).toBe(builder)
  })
})

it('volumes of fairlead.json apply to an app that its Dockerfile builds', () => {
  const volumes = { data: '/data' }
  const planned = plan({ Dockerfile: dockerfile, 'fairlead.json': { volumes } })
  expect(planned).toMatchObject({ ok: true, plan: { kind: 'dockerfile', volumes } })
})

it('a server lists Dockerfiles among the recognised files where it runs only containers', () => {
  const failed = (images: boolean) => plan({ 'notes.txt': '' }, { programs, images })
  expect(failed(true)).toMatchObject({ failure: { message: expect.stringContaining('; a Dockerfile.') } })
  expect(failed(false)).toMatchObject({ failure: { message: expect.not.stringContaining('Dockerfile') } })
})

it('builds a new app by its Dockerfile where the server runs containers, and the log says how to change that', () => {
  const planned = plan({ ...node, Dockerfile: dockerfile })
  expect(planned).toMatchObject({
    ok: true,
    plan: { kind: 'dockerfile', build: [], image: image(), start: { argv: ['fairlead-image'] } },
  })
  expect(planned.ok && planned.plan.notes?.[0]).toContain('"builder": "detected"')
})

it('builds an existing app as before, and the log says why', () => {
  const planned = plan({ ...node, Dockerfile: dockerfile }, { ...withDocker, before: 'node' })
  expect(planned).toMatchObject({ ok: true, plan: { kind: 'node' } })
  expect(planned.ok && planned.plan.notes?.[0]).toMatch(/not used.*\(node\).*"builder": "dockerfile"/)
})

it('builds a new app by its Dockerfile despite a mistake in package.json; an existing app fails for the mistake', () => {
  const files = { 'package.json': '{', Dockerfile: dockerfile }
  expect(plan(files)).toMatchObject({ ok: true, plan: { kind: 'dockerfile' } })
  expect(plan(files, { ...withDocker, before: 'node' })).toMatchObject({ failure: { code: 'invalid_package_json' } })
})

it('fairlead.json names the Dockerfile, its stage, its processes and a read-only root', () => {
  const settings = {
    root: 'apps/web',
    builder: 'dockerfile',
    dockerfile: { path: './docker/web.Dockerfile', target: 'runtime' },
    read_only: true,
    health: '/health',
    processes: { worker: { command: ['/worker', '--all'], instances: 1 } },
  }
  const planned = plan({
    'fairlead.json': settings,
    'apps/web/docker/web.Dockerfile': dockerfile,
    'apps/web/Procfile': 'web: none\nclock: none',
    ...node,
  })
  expect(planned).toEqual({
    ok: true,
    plan: {
      kind: 'dockerfile',
      build: [],
      image: image('apps/web/docker/web.Dockerfile', 'runtime', 'apps/web'),
      start: { argv: ['fairlead-image'], readOnly: true },
      health: '/health',
      processes: { worker: { command: { argv: ['/worker', '--all'], readOnly: true }, instances: 1 } },
    },
  })
})

it('the owner’s start replaces the command of the image, also where only the Dockerfile is named', () => {
  const settings = { dockerfile: { target: 'web' }, start: ['/app', 'serve'] }
  expect(plan({ 'fairlead.json': settings, Dockerfile: dockerfile })).toMatchObject({
    plan: { image: image('Dockerfile', 'web'), start: { argv: ['/app', 'serve'] } },
  })
})

it.each([
  ['../Dockerfile', 'path inside'],
  ['/etc/passwd', 'path inside'],
  ['a/../../b', 'path inside'],
  ['-f', 'path inside'],
  ['.', 'path inside'],
  ['a\\b', 'path inside'],
  ['a\nb', 'path inside'],
])('a Dockerfile at %j is refused', (path, message) => {
  const planned = plan({ 'fairlead.json': { dockerfile: { path } }, Dockerfile: dockerfile })
  expect(planned).toMatchObject({
    failure: { code: 'invalid_fairlead_json', message: expect.stringContaining(message) },
  })
})

it.each(['--build-arg', '-x', 'a b', 'a$(b)', ''])('a stage %j is refused', (target) => {
  const planned = plan({ 'fairlead.json': { dockerfile: { target } }, Dockerfile: dockerfile })
  expect(planned).toMatchObject({ failure: { code: 'invalid_fairlead_json' } })
})

it('names what is missing: the Dockerfile, or Docker', () => {
  const asked = { 'fairlead.json': { builder: 'dockerfile' }, ...node }
  expect(plan(asked)).toMatchObject({ failure: { code: 'no_dockerfile' } })
  const without = plan({ ...asked, Dockerfile: dockerfile }, { programs })
  expect(without).toMatchObject({
    failure: { code: 'no_docker', message: expect.stringContaining('FAIRLEAD_RUNTIME=process,docker') },
  })
  const both = { 'fairlead.json': { builder: 'dockerfile', build: ['make'] }, Dockerfile: dockerfile }
  expect(plan(both)).toMatchObject({ failure: { code: 'invalid_fairlead_json' } })
})
