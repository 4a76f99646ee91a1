import { describe, expect, it } from 'vitest'
import {
  cycles,
  detoursInDashboard,
  forbiddenImports,
  importsOfHttp,
  missingFiles,
  privateTables,
  readsOfEnvironment,
  signalsToProcesses,
  startsOfProcesses,
  unknownFolders,
} from '../../../scripts/rooms/rules.ts'
import { scan } from '../../../scripts/rooms/scan.ts'
import { dashboardRooms, innerRooms, type Room, serverRooms } from '../../../scripts/rooms/table.ts'

/** A file with one import, and whether the table forbids the import. */
interface Probe {
  readonly path: string
  readonly imported: string
  readonly forbidden: boolean
}

const may = (path: string, imported: string): Probe => ({ path, imported, forbidden: false })
const mayNot = (path: string, imported: string): Probe => ({ path, imported, forbidden: true })

const parentOf = (path: string): string => path.split('/').slice(0, -1).join('/')
const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

/** Imports of each sibling, by a file of the room and by a file in a subfolder. All rooms of the server are siblings. */
function siblingProbes(folder: string, room: Room, rooms: readonly Room[]): Probe[] {
  const siblings = rooms.filter(
    ({ path }) => path !== room.path && (rooms === serverRooms || parentOf(path) === parentOf(room.path)),
  )
  const up = '../'.repeat(room.path.split('/').length)
  return siblings.flatMap(({ path, inside = [] }) => {
    const folders = [
      { to: path, forbidden: !room.imports.includes(path) },
      ...inside.map((each) => ({ to: `${path}/${each}`, forbidden: true })),
    ]
    return folders.flatMap(({ to, forbidden }) => [
      { path: `${folder}/${room.path}/probe.ts`, imported: `${up}${to}/file.ts`, forbidden },
      { path: `${folder}/${room.path}/deeper/probe.ts`, imported: `../${up}${to}/file.ts`, forbidden },
    ])
  })
}

const programFiles = ['server.ts', 'administration.ts', 'doctor.ts', 'cli.ts', 'commands/file.ts', 'leftovers.ts']
const otherPackages = ['receiver/src/file.ts', 'action/src/file.ts', 'test/file.ts', 'demo/file.ts']

/** The rules that all rooms of the server share, at any depth. */
function sharedProbes(room: Room): Probe[] {
  return ['', 'deeper/'].flatMap((deeper) => {
    const path = `server/src/${room.path}/${deeper}probe.ts`
    const up = '../'.repeat(path.split('/').length - 3)
    return [
      ...programFiles.map((file) => mayNot(path, up + file)),
      ...otherPackages.map((file) => mayNot(path, `${up}../../${file}`)),
      may(path, './file.ts'),
      may(path, '../file.ts'),
      may(path, '@fairlead/receiver'),
      may(path, 'zod'),
    ]
  })
}

/** A subfolder follows the rules of its room. */
function inheritedProbes(room: Room): Probe[] {
  const outer = serverRooms.find(({ path }) => room.path.startsWith(`${path}/`))
  const path = `server/src/${room.path}/probe.ts`
  const up = '../'.repeat(room.path.split('/').length)
  return serverRooms
    .filter(({ path: other }) => other !== outer?.path)
    .map(({ path: other }) => ({
      path,
      imported: `${up}${other}/file.ts`,
      forbidden: outer?.imports.includes(other) !== true,
    }))
}

const insides = serverRooms.flatMap(({ path, inside = [] }) => inside.map((folder) => `${path}/${folder}`))

const groups: readonly (readonly [name: string, probes: readonly Probe[]])[] = [
  ...serverRooms.map(
    (room) => [room.path, [...siblingProbes('server/src', room, serverRooms), ...sharedProbes(room)]] as const,
  ),
  ...innerRooms.map(
    (room) =>
      [
        room.path,
        [...siblingProbes('server/src', room, innerRooms), ...sharedProbes(room), ...inheritedProbes(room)],
      ] as const,
  ),
  ...dashboardRooms.map(
    (room) => [`dashboard ${room.path}`, siblingProbes('server/dashboard/src', room, dashboardRooms)] as const,
  ),
  [
    'inside',
    insides.flatMap((folder) => [
      may(`server/src/${folder}/probe.ts`, './file.ts'),
      may(`server/src/${parentOf(folder)}/probe.ts`, `./${nameOf(folder)}/file.ts`),
      may('server/src/doctor.ts', `./${folder}/file.ts`),
      may('server/src/server.ts', `./${folder}/file.ts`),
      mayNot('server/src/administration.ts', `./${folder}/file.ts`),
      mayNot('server/src/commands/probe.ts', `../${folder}/file.ts`),
      mayNot('server/src/features/deployments/probe.ts', `../../${folder}/file.ts`),
    ]),
  ],
  [
    'programs',
    [
      ...['server.ts', 'administration.ts', 'doctor.ts'].flatMap((file) => [
        mayNot(`server/src/${file}`, './cli.ts'),
        mayNot(`server/src/${file}`, './commands/file.ts'),
        may(`server/src/${file}`, './features/deployments/file.ts'),
      ]),
      mayNot('server/src/commands/probe.ts', '../cli.ts'),
      may('server/src/commands/probe.ts', '../server.ts'),
      may('server/src/cli.ts', './commands/file.ts'),
    ],
  ],
  [
    'packages',
    [
      ...['koa', 'kysely', 'pg', 'node:fs', 'undici'].map((name) => mayNot('server/src/contract/probe.ts', name)),
      mayNot('server/src/contract/resources/probe.ts', 'node:fs'),
      mayNot('receiver/src/probe.ts', '@fairlead/server/client'),
      mayNot('receiver/src/probe.ts', '../../server/src/contract/ids.ts'),
      mayNot('receiver/src/probe.ts', 'koa'),
      may('receiver/src/probe.ts', 'zod'),
      mayNot('action/src/probe.ts', '../../server/src/contract/operations.ts'),
      mayNot('action/src/probe.ts', '@fairlead/receiver'),
      may('action/src/probe.ts', '@fairlead/server/client'),
      may('action/src/probe.ts', '@fairlead/server/dotenv'),
      mayNot('demo/probe.ts', '../server/src/server.ts'),
      may('demo/probe.ts', '@fairlead/receiver'),
      ...['', 'pages/', 'pages/project/deployments/', 'ui/forms/'].flatMap((folder) => {
        const path = `server/dashboard/src/${folder}probe.ts`
        return [
          ...['node:fs', '@fairlead/server', '@fairlead/server/errors'].map((name) => mayNot(path, name)),
          mayNot(path, `${'../'.repeat(folder.split('/').length)}../src/contract/../../../server/src/server.ts`),
          ...['client', 'dashboard-client', 'dotenv'].map((name) => may(path, `@fairlead/server/${name}`)),
        ]
      }),
    ],
  ],
]

describe('the table of rooms', () => {
  it.each(groups)('%s', (_, probes) => {
    const wrong = probes.filter(
      ({ path, imported, forbidden }) =>
        forbiddenImports(scan(path, `import '${imported}'`)).length !== (forbidden ? 1 : 0),
    )
    expect(wrong).toEqual([])
  })

  it.each([
    ["import type { A } from '../deployments/a.ts'"],
    ["export * from '../deployments/a.ts'"],
    ["export const a = () => import('../deployments/a.ts')"],
    ["type A = typeof import('../deployments/a.ts')"],
    ["const a = createRequire(import.meta.url)('../deployments/a.ts')"],
    ["import {\n  a, // '\n} from\n'../deployments/a.ts'"],
    [`const a = \`\${/\`/.test(b) ? \`\${await import(/* later */ "../deployments/a.ts")}\` : 1}\``],
  ])('forbids each form of import: %s', (text) => {
    expect(forbiddenImports(scan('server/src/features/apps/a.ts', text))).toEqual([
      expect.stringMatching(
        /^server\/src\/features\/apps\/a\.ts:\d imports \.\.\/deployments\/a\.ts: features\/apps may import only sources, /,
      ),
    ])
  })

  it('ignores text that only looks like an import', () => {
    const text =
      "// import '../deployments/a.ts'\n/* import '../deployments/a.ts' */\n" +
      'const a = `import "../deployments/a.ts"`'
    expect(scan('server/src/features/apps/a.ts', `${text}\nArray.from('../deployments/a.ts')`).imports).toEqual([])
  })

  it('contains each folder of the server that has siblings, and no missing folder', () => {
    const rooms = [...serverRooms, ...innerRooms].map(({ path }) => scan(`server/src/${path}/a.ts`, ''))
    const lost = rooms.filter(({ path }) => path !== 'server/src/platform/disk/a.ts')
    expect(unknownFolders([...rooms, scan('server/src/commands/client/new/a.ts', '')])).toEqual([])
    expect(unknownFolders([...rooms, scan('server/src/platform/new/a.ts', '')])).toEqual([
      'server/src/platform/new is not in scripts/rooms/table.ts: add it with the siblings that it may import.',
    ])
    expect(unknownFolders(lost)).toEqual([
      'server/src/platform/disk is in scripts/rooms/table.ts and has no files: remove it from the table.',
    ])
  })
})

describe('files', () => {
  const cycle = [
    scan('a/one.ts', "import type { Two } from './two.ts'"),
    scan('a/two.ts', "export * from './three.ts'"),
    scan('a/three.ts', "export const one = () => import('./one.ts')"),
  ]

  it('may not import each other in a circle, not even types', () => {
    expect(cycles(cycle)).toEqual([
      'a/one.ts imports a/two.ts imports a/three.ts imports a/one.ts: ' +
        'move what both need into one file that imports none of them.',
    ])
    expect(cycles(cycle.slice(0, 2))).toEqual([])
  })

  it('import only existing files', () => {
    expect(missingFiles(cycle)).toEqual([])
    expect(missingFiles(cycle.slice(0, 2))).toEqual([
      'a/two.ts:1 imports ./three.ts, which does not exist: correct the path.',
    ])
  })
})

describe('the server', () => {
  const reading = 'export const port = process.env.PORT'

  it.each([
    [reading],
    ["export const port = process['env'].PORT"],
    ['const { env } = process'],
    [`const a = \`\${process.env.PORT}\``],
    ["import { env } from 'node:process'"],
  ])('reads the environment only in its configuration: %s', (text) => {
    expect(readsOfEnvironment(scan('server/src/http/a.ts', text))).toEqual([
      'server/src/http/a.ts reads the environment: ' +
        'add a setting to server/src/platform/config and take it as a parameter.',
    ])
    for (const path of ['server/src/platform/config.ts', 'server/src/platform/config/a.ts', 'action/src/a.ts']) {
      expect(readsOfEnvironment(scan(path, text))).toEqual([])
    }
  })

  it('may name the environment in texts and comments', () => {
    expect(readsOfEnvironment(scan('server/src/http/a.ts', `// ${reading}\nconst a = '${reading}'`))).toEqual([])
  })

  it.each([
    ["import { type ChildProcess, spawn } from 'node:child_process'"],
    ["import { spawn as start } from 'child_process'"],
    ["import { exec } from 'node:child_process'"],
    ["import * as processes from 'node:child_process'"],
    ["const { spawn } = await import('node:child_process')"],
    ["const { spawn } = process.getBuiltinModule('node:child_process')"],
  ])('starts processes in one place: %s', (text) => {
    expect(startsOfProcesses(scan('server/src/builds/a.ts', text))).toEqual([
      expect.stringContaining(': start the process by server/src/platform/processes/spawn.ts, '),
    ])
    expect(startsOfProcesses(scan('server/src/platform/processes/spawn.ts', text))).toEqual([])
  })

  it.each([
    ["import { type ChildProcess, execFile } from 'node:child_process'"],
    ["import type { spawn } from 'node:child_process'"],
    ["type Spawn = typeof import('node:child_process').spawn"],
  ])('may run a program to its end, and name types of processes: %s', (text) => {
    expect(startsOfProcesses(scan('server/src/builds/a.ts', text))).toEqual([])
  })

  it('sends signals in one place, and may end its own child', () => {
    const sending = "process.kill(pid, 'SIGTERM')"
    expect(signalsToProcesses(scan('server/src/commands/a.ts', sending))).toEqual([
      expect.stringContaining('send the signal by sendSignal of server/src/platform/processes, '),
    ])
    expect(signalsToProcesses(scan('server/src/platform/processes/a.ts', sending))).toEqual([])
    expect(signalsToProcesses(scan('server/src/commands/a.ts', "process.kill()\nchild.kill('SIGTERM')"))).toEqual([])
  })

  it.each([
    ["import { request } from 'node:http'"],
    ["import { type Server } from 'node:https'"],
    ["export { request } from 'node:http'"],
    ["const { request } = await import('node:http')"],
    ["const { request } = process.getBuiltinModule('node:http')"],
  ])('loads HTTP in one place: %s', (text) => {
    expect(importsOfHttp(scan('server/src/gateway/a.ts', text))).toEqual([
      expect.stringContaining(': import its values from server/src/platform/http.ts '),
    ])
  })

  it('reads jobs by the view of graphile-worker, not from its private tables', () => {
    const reading = (table: string) => `await sql\`select from graphile_worker.${table}\`.execute(db)`
    expect(privateTables(scan('server/src/platform/a.ts', reading('_private_jobs')))).toEqual([
      'server/src/platform/a.ts names a private table of graphile-worker: use its view graphile_worker.jobs, or one of its functions.',
    ])
    expect(privateTables(scan('server/src/platform/a.ts', reading('jobs')))).toEqual([])
  })

  it('may load HTTP without its web client, and name its types', () => {
    const builtin = "const { request } = process.getBuiltinModule('node:http')"
    expect(importsOfHttp(scan('server/src/platform/http.ts', builtin))).toEqual([])
    expect(importsOfHttp(scan('server/src/gateway/a.ts', "import type { Server } from 'node:http'"))).toEqual([])
  })
})

describe('the dashboard', () => {
  it.each([
    ['queryClient.setQueryData(key, answer)', 'data/write-query.ts', 'writes data of a query: call writeQuery, '],
    ['client.setQueriesData({}, answer)', 'data/write-query.ts', 'writes data of a query: call writeQuery, '],
    ['const a = <form onSubmit={send} />', 'ui/forms/form.tsx', 'may send what nobody has changed: use Form '],
    [
      'const save = () => api.projects.update({ body })\nconst a = <Form mutation={save} />',
      'ui/forms/form.tsx',
      'may send what nobody has changed: use Form ',
    ],
  ])('writes in one place what a page shows and sends: %s', (text, place, advice) => {
    expect(detoursInDashboard(scan('server/dashboard/src/pages/a.tsx', text))).toEqual([
      expect.stringContaining(`server/dashboard/src/pages/a.tsx ${advice}`),
    ])
    for (const path of [`server/dashboard/src/${place}`, 'test/unit/dashboard/a.test.ts']) {
      expect(detoursInDashboard(scan(path, text))).toEqual([])
    }
  })

  it.each([
    ['const save = () => api.projects.update({ body })\nconst a = <Form mutation={save} saved={{ name }} />'],
    ['const make = () => api.projects.create({ body })\nconst a = <Form mutation={make} />'],
    ['const toggle = () => api.webhooks.update({ body })\nconst a = <ConfirmDialog mutation={toggle} />'],
  ])('has forms that send changes, forms that create resources, and changes without a form: %s', (text) => {
    expect(detoursInDashboard(scan('server/dashboard/src/pages/a.tsx', text))).toEqual([])
  })
})
