import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readComposeFile } from '../../../server/src/commands/client/compose/file.ts'
import { interpolate } from '../../../server/src/commands/client/compose/interpolate.ts'
import { planImport } from '../../../server/src/commands/client/compose/plan.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
beforeAll(async () => {
  directory = await temporaryDirectory()
})
afterAll(() => directory?.[Symbol.asyncDispose]())

let count = 0
/** Plans the import of a compose file, with further files beside it. */
async function planned(text: string, files: Readonly<Record<string, string>> = {}, environment = {}) {
  const folder = join(directory.path, String(count++))
  for (const [name, content] of Object.entries({ 'compose.yaml': text, ...files })) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), content)
  }
  return planImport(await readComposeFile(folder, environment))
}

const shop = `
services:
  web:
    build: .
    ports: ["8000:8000"]
    environment:
      DATABASE_URL: postgresql://shop:secret@db:5432/shop
      API_URL: http://api:3000/v1
      GREETING: \${GREETING:-hello}
      PORT: 8000
    depends_on:
      db: { condition: service_healthy }
      api: { condition: service_started }
    volumes: ["uploads:/srv/uploads", "./src:/srv/src"]
  api:
    image: registry.example/team/api:2
    deploy: { replicas: 3, resources: { limits: { memory: 1G } } }
    env_file: api.env
    privileged: true
  db:
    image: postgres:16-alpine
    environment: { POSTGRES_PASSWORD: secret }
    volumes: [db-data:/var/lib/postgresql/data]
  debug:
    image: busybox
    profiles: [debug]
volumes: { uploads: {}, db-data: {} }
networks: { back: {} }
`

describe('a compose file', () => {
  it('becomes apps, databases and volumes, and says what is not carried over', async () => {
    const plan = await planned(shop, { 'api.env': 'TOKEN=t\nREDIS_HOST=web\n', '.env': 'GREETING=from the file\n' })
    expect(plan.databases).toEqual([{ name: 'db', version: '16' }])
    expect(plan.apps.map(({ name }) => name)).toEqual(['api', 'web'])
    const [api, web] = plan.apps
    expect(api).toMatchObject({
      source: { image: 'registry.example/team/api:2' },
      instances: 3,
      variables: { TOKEN: 't', REDIS_HOST: 'web.internal' },
    })
    expect(web).toMatchObject({
      source: { folder: '.' },
      databases: { DATABASE_URL: 'db' },
      variables: { API_URL: 'http://api.internal:3000/v1', GREETING: 'from the file' },
      volumes: {},
      settings: { volumes: { uploads: '/srv/uploads' } },
    })
    const notes = plan.notes.join('\n')
    for (const part of [
      'networks: is not carried over',
      'debug: is of the profile debug',
      'api: privileged is not carried over',
      'api: deploy.resources is not carried over',
      'web: PORT is set by Fairlead',
      '/srv/src is a bind mount of ./src',
    ]) {
      expect(notes).toContain(part)
    }
    expect(notes).not.toContain('secret')
    expect(JSON.stringify(plan)).not.toContain('POSTGRES_PASSWORD')
  })

  it('takes the environment before the .env beside it, and gives a database to what depends on it', async () => {
    const text = `
services:
  app:
    image: "example/app:\${TAG}"
    environment: [DB_HOST=db, OUTER, MISSING]
    depends_on: [db]
  db: { image: docker.io/bitnami/postgresql:latest }
`
    const { apps, databases, notes } = await planned(text, { '.env': 'TAG=1\nOUTER=a\n' }, { TAG: '2' })
    expect(databases).toEqual([{ name: 'db', version: null }])
    expect(apps).toMatchObject([
      { source: { image: 'example/app:2' }, variables: { OUTER: 'a' }, databases: { DATABASE_URL: 'db' } },
    ])
    expect(apps[0]?.variables).not.toHaveProperty('MISSING')
    expect(notes.join('\n')).toContain('app: DB_HOST named a part of the address of a database')
  })

  it('keeps anchors and merged keys, Dockerfiles of other names, and the order of services that need each other', async () => {
    const text = `
x-common: &common
  environment: { A: "1" }
services:
  one: { <<: *common, build: { context: ./one, dockerfile: ./Dockerfile.prod, target: run, args: { B: 2 } }, depends_on: [two] }
  two: { <<: *common, build: ./two, command: npm run worker, depends_on: [one] }
`
    const { apps, notes } = await planned(text)
    expect(apps).toMatchObject([
      { name: 'two', source: { folder: './two' }, variables: { A: '1' }, settings: null },
      { name: 'one', settings: { dockerfile: { path: 'Dockerfile.prod', target: 'run' } } },
    ])
    expect(notes.join('\n')).toContain('one: args of its build is not carried over')
    expect(notes.join('\n')).toContain('two: its command is not carried over')
  })

  it.each([
    ['services: [', 'is no YAML'],
    ['services: { a: 1 }', 'services.a'],
    ['name: x', 'services'],
    [`services: { a: { image: "\${NEEDED:?set it}" } }`, 'needs the variable NEEDED: set it'],
    ['services: { a: { image: "a$" } }', 'write $$'],
    [`services: { a: { image: "\${A:-b" } }`, 'write $$'],
    [`services: { a: { image: "\${A b}" } }`, 'write $$'],
  ])('that cannot be read is refused with a reason: %s', async (text, reason) => {
    await expect(planned(text)).rejects.toThrow(reason)
  })

  it('has variables by the rules of Compose', () => {
    const given = { SET: 'value', EMPTY: '' }
    const cases: Record<string, string> = {
      '$SET-${SET}': 'value-value',
      '${NONE}': '',
      '${EMPTY-default}${EMPTY:-default}': 'default',
      '${NONE-a}${SET-a}': 'avalue',
      '${SET:+other}${EMPTY:+other}${NONE+other}': 'other',
      $$SET: '$SET',
    }
    for (const [text, value] of Object.entries(cases)) expect(interpolate(text, given), text).toBe(value)
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(interpolate(text.replaceAll('$', '$$$$'), given)).toBe(text)
      }),
    )
  })

  it('of any form is planned or refused with a reason', async () => {
    const word = fc.constantFrom('a', 'db', '.', './x', 'a:/b', 'postgres:16', 'x'.repeat(40), '/etc', '$A', '')
    const service = fc.record(
      {
        image: word,
        build: fc.oneof(word, fc.record({ context: word, dockerfile: word })),
        volumes: fc.array(word, { maxLength: 12 }),
        environment: fc.dictionary(word, word),
        depends_on: fc.array(word),
      },
      { requiredKeys: [] },
    )
    await fc.assert(
      fc.asyncProperty(fc.dictionary(word, service), async (services) => {
        const { apps, databases } = await planned(JSON.stringify({ services }))
        const names = [...apps, ...databases].map(({ name }) => name)
        expect(new Set(names).size).toBe(names.length)
        for (const name of names) expect(Object.keys(services)).toContain(name)
      }),
      { numRuns: 50 },
    )
  })
})
