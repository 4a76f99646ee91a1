import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { interpolate, readComposeFile } from '../../../server/src/commands/client/compose/file.ts'
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
  it('gives numbers as they are written', async () => {
    const numbers = {
      GUILD_ID: '1081234567890123456',
      MODE: '0644',
      VERSION: '1.10',
      SMALL: '1e-7',
      HEX: '0xff',
      PLUS: '+5',
    }
    const lines = Object.entries(numbers).map(([name, value]) => `      ${name}: ${value}`)
    const { apps } = await planned(`services:\n  web:\n    image: a/b\n    environment:\n${lines.join('\n')}\n`)
    expect(apps[0]?.variables).toEqual(numbers)
  })

  it('becomes apps, databases and volumes, and lists what is not imported', async () => {
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

  it('prefers the environment to the .env beside it, and gives a database to its dependents', async () => {
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

  it('keeps anchors and merged keys, Dockerfiles of other names, and the order of dependent services', async () => {
    const text = `
x-common: &common
  environment: { A: "1" }
services:
  one: { <<: *common, build: { context: ./one, dockerfile: ./Dockerfile.prod, target: run, args: { B: 2 } }, read_only: "\${READ_ONLY:-true}", depends_on: [two] }
  two: { <<: *common, build: ./two, command: npm run worker, depends_on: [one] }
`
    const { apps, notes } = await planned(text)
    expect(apps).toMatchObject([
      { name: 'two', source: { folder: './two' }, variables: { A: '1' }, settings: null },
      { name: 'one', settings: { dockerfile: { path: 'Dockerfile.prod', target: 'run' }, read_only: true } },
    ])
    expect(notes.join('\n')).toContain('one: args of its build is not carried over')
    expect(notes.join('\n')).toContain(
      'two: its command is not carried over. Write in fairlead.json: "builder": "dockerfile", "start": ["npm","run","worker"]',
    )
  })

  it('has the addresses of apps in every form, by all names that services have, and the addresses of databases as links', async () => {
    const text = `
services:
  app:
    image: example/app
    environment:
      CACHE: my_cache:6379
      BROKERS: "events:9092,events-2:9092"
      SEARCH_HOST: search_1
      EVENTS_URL: Host=events;Port=8123
      DB_TYPE: postgres
      DB_USER: postgres
      DB_HOST: postgres:5432
      JDBC_URL: jdbc:postgresql://main-db/app
      URL: postgresql+asyncpg://u:p@postgres/app?sslmode=disable
      CONFIG: "first: 1\\nurl: jdbc:postgresql://postgres/app"
      OTHER_URL: http://debug:80
      IMAGE: events
      node.name: one
  bare: { image: example/bare, environment: { DB_HOST: postgres } }
  my_cache: { image: cache }
  events: { image: events, networks: { default: { aliases: [events-2] } } }
  search: { image: search, container_name: search_1 }
  debug: { image: busybox, profiles: [debug] }
  postgres: { image: postgres:16, container_name: main-db }
`
    const { apps, notes } = await planned(text)
    const [app, bare] = ['app', 'bare'].map((each) => apps.find(({ name }) => name === each))
    expect(app?.variables).toEqual({
      CACHE: 'my-cache.internal:6379',
      BROKERS: 'events.internal:9092,events.internal:9092',
      SEARCH_HOST: 'search.internal',
      EVENTS_URL: 'Host=events.internal;Port=8123',
      DB_TYPE: 'postgres',
      DB_USER: 'postgres',
      CONFIG: 'first: 1\nurl: jdbc:postgresql://postgres/app',
      OTHER_URL: 'http://debug:80',
      IMAGE: 'events',
    })
    expect(app?.databases).toEqual({ URL: 'postgres' })
    expect(bare).toMatchObject({ variables: {}, databases: { DATABASE_URL: 'postgres' } })
    expect(notes.filter((note) => note.startsWith('app: '))).toEqual([
      'app: URL begins with postgresql:// here, in place of postgresql+asyncpg://.',
      'app: the parameters of the address in URL are not carried over.',
      'app: DB_HOST, JDBC_URL named a part of the address of a database, and are left out.',
      'app: The addresses of apps in CACHE, BROKERS, SEARCH_HOST, EVENTS_URL end with .internal here.',
      'app: CONFIG, OTHER_URL still names a service that is not at that name here: set it anew.',
      'app: node.name is left out: names of variables have letters, digits and underscores here.',
    ])
  })

  it('reports differences to Compose in ports, volumes, databases and tasks', async () => {
    const text = `
services:
  web:
    image: web
    ports: ["80:8000", "5000-5002", "53:53/udp"]
    environment: { SECRET: "$NOT_THERE" }
    volumes: ["data:/data", "nfs:/nfs:ro"]
    depends_on: { migrate: { condition: service_completed_successfully } }
    platform: linux/arm64
  worker: { image: web, ports: ["127.0.0.1:9000:9000"], restart: "no", volumes: [{ type: volume, source: data, target: /d }] }
  migrate: { image: web, command: migrate }
  db: { image: team/postgres:16, ports: ["5432:5432"], secrets: [password] }
volumes:
  data: { external: true }
  nfs: { driver: local, driver_opts: { type: nfs } }
`
    const { apps, notes } = await planned(text)
    expect(apps.map(({ name }) => name)).toEqual(['web', 'worker'])
    const all = notes.join('\n')
    for (const part of [
      'NOT_THERE: has no value',
      'web: its UDP ports are not carried over',
      'web: has several ports',
      'web: platform is not carried over',
      'web: the volume at /nfs can be written to here',
      'worker: is started again here when it ends',
      'worker: cannot be reached from outside in Compose',
      'migrate: is to end before others start, and is left out',
      'db: extensions that its image adds',
      'db: secrets is not carried over',
      'data: is one volume of web, worker',
      'data: external of the volume is not carried over',
      'nfs: driver_opts of the volume is not carried over',
    ]) {
      expect(all).toContain(part)
    }
  })

  it('skips well-known programs that do not speak HTTP, and says so', async () => {
    const text = `
services:
  web: { build: ., ports: ["80:80"], environment: { REDIS_URL: "redis://cache:6379/0" }, depends_on: [cache, mysql] }
  cache: { image: "redis:7-alpine", volumes: ["cache:/data"] }
  mysql: { image: docker.io/bitnami/mysql@sha256:${'0'.repeat(64)} }
  own-redis: { build: ./redis, image: team/redis }
  redis: { image: team/redis-commander }
`
    const { apps, notes } = await planned(text)
    expect(apps.map(({ name }) => name)).toEqual(['web', 'own-redis', 'redis'])
    const why = 'is left out, because an app answers HTTP, which this image does not'
    for (const name of ['cache', 'mysql']) expect(notes.join('\n')).toContain(`${name}: ${why}`)
    expect(notes).toContain('web: REDIS_URL still names a service that is not at that name here: set it anew.')
  })

  it('has a process type for another command of the same build, and no second app of the same image', async () => {
    const text = `
services:
  worker: { build: ., command: "node worker.js --fast", deploy: { replicas: 2 } }
  web: { build: { context: . }, ports: ["80:80"], command: node server.js, environment: { JOBS_URL: "http://worker:80" } }
  beat: { build: ., command: 'sh -c "sleep 1"' }
  other: { build: { context: ., target: other }, command: [run] }
  automation-worker: { image: automation, command: worker }
  automation: { image: automation }
`
    const { apps, notes } = await planned(text)
    expect(apps.map(({ name }) => name)).toEqual(['web', 'other', 'automation'])
    const all = notes.join('\n')
    for (const part of [
      'worker: is left out, because it is a process type of web. Write in fairlead.json: ' +
        '"processes": {"worker":{"command":["node","worker.js","--fast"],"instances":2}}',
      'beat: is left out',
      `["/bin/sh","-c","exec sh -c \\"sleep 1\\""]`,
      'automation-worker: is left out, because without its command it would be a second automation',
      'web: JOBS_URL still names a service that is not at that name here',
    ]) {
      expect(all).toContain(part)
    }
  })

  it('with hundreds of merged keys and with numbers from variables is read', async () => {
    const many = Array.from({ length: 300 }, (_, at) => `  web${at}: { <<: *common }`).join('\n')
    const text = `x-common: &common { image: nginx, deploy: { replicas: "\${REPLICAS:-2}" } }\nservices:\n${many}\n`
    const { apps } = await planned(text)
    expect(apps).toHaveLength(300)
    expect(apps[299]).toMatchObject({ source: { image: 'nginx' }, instances: 2 })
  })

  it('that grows endlessly through its anchors is refused at once', async () => {
    const levels = 'abcdefghij'.split('')
    const list = (name: string) => Array(9).fill(`*${name}`).join(',')
    for (const [open, close] of [
      ['[', ']'],
      ['{ <<: [', '] }'],
    ] as const) {
      const lines = levels.map((name, at) =>
        at === 0 ? 'a: &a { k: v }' : `${name}: &${name} ${open}${list(levels[at - 1] ?? '')}${close}`,
      )
      await expect(planned(`${lines.join('\n')}\nservices: { web: { image: x } }`)).rejects.toThrow(
        'is not readable YAML',
      )
    }
  })

  it.each([
    ['services: [', 'is not readable YAML'],
    ['', 'it has no services'],
    ['services: { a: { image: !reset null } }', '!reset'],
    ['services: { __proto__: { image: a } }', 'services.__proto__'],
    ['services: { a: 1 }', 'services.a'],
    ['name: x', 'services'],
    [`services: { a: { image: "\${NEEDED:?set it}" } }`, 'services.a.image needs the variable NEEDED: set it'],
    [`services: { a: { image: "a\${" } }`, 'write $$'],
    [`services: { a: { image: "\${A:-b" } }`, 'write $$'],
    [`services: { a: { image: "\${A b}" } }`, 'write $$'],
  ])('that is unreadable is refused with a reason: %s', async (text, reason) => {
    await expect(planned(text)).rejects.toThrow(reason)
  })

  it('has variables by the rules of Compose', () => {
    const given = { variables: { SET: 'value', EMPTY: '' }, place: 'services.a', missing: () => undefined }
    const cases: Record<string, string> = {
      '$SET-${SET}': 'value-value',
      '${NONE}': '',
      '${EMPTY-default}${EMPTY:-default}': 'default',
      '${NONE-a}${SET-a}': 'avalue',
      '${SET:+other}${EMPTY:+other}${NONE+other}': 'other',
      $$SET: '$SET',
      'pa$1 $ ^a$': 'pa$1 $ ^a$',
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
