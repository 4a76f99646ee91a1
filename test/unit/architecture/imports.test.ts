import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { dashboardRooms, innerRooms, type Room, serverRooms } from '../../../scripts/rooms/table.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { root, sourcePaths } from './source.ts'

/** A file with one import, and the rule that the linter is expected to report, if any. */
interface Probe {
  readonly path: string
  readonly imported: string
  readonly forbidden: boolean
}

const may = (path: string, imported: string): Probe => ({ path, imported, forbidden: false })
const mayNot = (path: string, imported: string): Probe => ({ path, imported, forbidden: true })

const parentOf = (path: string): string => path.split('/').slice(0, -1).join('/')
const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

/** Imports of each sibling, by a file of the room and by one in a folder of the room. */
function siblingProbes(folder: string, room: Room, rooms: readonly Room[]): Probe[] {
  const siblings = rooms.filter(({ path }) => path !== room.path && parentOf(path) === parentOf(room.path))
  return siblings.flatMap(({ path, inside = [] }) => {
    const forbidden = !room.imports.includes(path)
    const folders = [
      { to: nameOf(path), forbidden },
      ...inside.map((each) => ({ to: `${path}/${each}`, forbidden: true })),
    ]
    return folders.flatMap((each) => [
      { path: `${folder}/${room.path}/probe.ts`, imported: `../${each.to}/file.ts`, forbidden: each.forbidden },
      {
        path: `${folder}/${room.path}/deeper/probe.ts`,
        imported: `../../${each.to}/file.ts`,
        forbidden: each.forbidden,
      },
    ])
  })
}

const programFiles = [
  'server.ts',
  'administration.ts',
  'doctor.ts',
  'cli.ts',
  'commands/file.ts',
  'composition/file.ts',
]
const otherPackages = ['receiver/src/file.ts', 'action/src/file.ts', 'test/file.ts', 'demo/file.ts']

/** The rules that all rooms of the server share, however deep the file. */
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

/** A folder within a room follows the rules of the room too. */
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
      may('server/src/composition/probe.ts', `../${folder}/file.ts`),
      may('server/src/doctor.ts', `./${folder}/file.ts`),
      mayNot('server/src/server.ts', `./${folder}/file.ts`),
      mayNot('server/src/commands/probe.ts', `../${folder}/file.ts`),
      mayNot('server/src/deployments/job/probe.ts', `../../${folder}/file.ts`),
    ]),
  ],
  [
    'programs',
    [
      ...['server.ts', 'administration.ts', 'doctor.ts'].flatMap((file) => [
        mayNot(`server/src/${file}`, './cli.ts'),
        mayNot(`server/src/${file}`, './commands/file.ts'),
        may(`server/src/${file}`, './composition/file.ts'),
        may(`server/src/${file}`, './deployments/state/file.ts'),
      ]),
      mayNot('server/src/composition/probe.ts', '../cli.ts'),
      mayNot('server/src/running/probe.ts', '../commands/file.ts'),
      mayNot('server/src/deployments/job/probe.ts', '../../running/file.ts'),
      mayNot('server/src/composition/probe.ts', '../commands/file.ts'),
      may('server/src/composition/probe.ts', '../webhooks/file.ts'),
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

/** Writes these files into one temporary tree, lints them in one run, and returns the rules reported as `path:line`. */
async function lint(
  files: ReadonlyMap<string, string>,
  rule: string,
): Promise<{ readonly reported: ReadonlySet<string>; readonly checked: number }> {
  await using directory = await temporaryDirectory()
  copyFileSync(join(root, 'biome.json'), join(directory.path, 'biome.json'))
  for (const [path, content] of files) {
    mkdirSync(dirname(join(directory.path, path)), { recursive: true })
    writeFileSync(join(directory.path, path), content)
  }
  const { stdout } = spawnSync(
    join(root, 'node_modules/.bin/biome'),
    ['lint', '--vcs-enabled=false', '--reporter=json', '--max-diagnostics=none', '.'],
    { cwd: directory.path, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
  )
  const { summary, diagnostics } = JSON.parse(stdout) as Report
  const ofRule = diagnostics.filter(({ category }) => category === `lint/${rule}`)
  return {
    reported: new Set(ofRule.map(({ location }) => `${location.path}:${location.start.line}`)),
    checked: summary.changed + summary.unchanged,
  }
}

interface Report {
  readonly summary: { readonly changed: number; readonly unchanged: number }
  readonly diagnostics: readonly {
    readonly category: string
    readonly location: { readonly path: string; readonly start: { readonly line: number } }
  }[]
}

describe('the direction of imports', async () => {
  /** One file for each path, with an import on each line. */
  const lines = new Map<string, string[]>()
  for (const { path, imported } of groups.flatMap(([, probes]) => probes)) {
    const known = lines.get(path) ?? []
    if (!known.includes(imported)) lines.set(path, [...known, imported])
  }
  const files = new Map([...lines].map(([path, all]) => [path, all.map((each) => `import '${each}'\n`).join('')]))
  const { reported, checked } = await lint(files, 'style/noRestrictedImports')
  const isReported = ({ path, imported }: Probe) =>
    reported.has(`${path}:${(lines.get(path)?.indexOf(imported) ?? -1) + 1}`)

  it('is checked in every file', () => {
    expect(checked).toBe(files.size + 1)
  })

  it.each(groups)('%s', (_, probes) => {
    const wrong = probes.filter((probe) => isReported(probe) !== probe.forbidden)
    expect(wrong).toEqual([])
  })
})

it('the environment is read in the configuration alone', async () => {
  const reading = 'export const port = process.env.PORT\n'
  const paths = ['server/src/http/new.ts', 'server/src/platform/config.ts', 'server/src/platform/config/new.ts']
  const { reported } = await lint(new Map(paths.map((path) => [path, reading])), 'style/noProcessEnv')
  expect([...reported]).toEqual(['server/src/http/new.ts:1'])
})

describe('the names of folders', () => {
  const folders = [...new Set(sourcePaths(['server/src', 'server/dashboard/src']).map(parentOf))]

  it('tell rooms from the folders within them, as the rules by name assume', () => {
    const tops = [...serverRooms.map(({ path }) => path), 'commands', 'composition']
    const inner = folders.filter((folder) => folder.startsWith('server/src/') && folder.split('/').length > 3)
    expect(inner.filter((folder) => tops.includes(nameOf(folder)))).toEqual([])
    const uis = dashboardRooms.filter(({ path }) => !path.includes('/')).map(({ path }) => path)
    const deeper = folders.filter(
      (folder) => folder.startsWith('server/dashboard/src/') && folder.split('/').length > 4,
    )
    expect(deeper.filter((folder) => uis.includes(nameOf(folder)))).toEqual([])
  })

  it('are all in the table', () => {
    const known = [...serverRooms, ...innerRooms].map(({ path }) => `server/src/${path}`)
    const missing = folders.filter((folder) => folder.startsWith('server/src/') && !isKnown(folder))
    expect(missing).toEqual([])
    expect(known.filter((folder) => !folders.some((each) => `${each}/`.startsWith(`${folder}/`)))).toEqual([])

    /**
     * A single folder within a room has no siblings that the table could name. Programs have one rule for all of their
     * folders.
     */
    function isKnown(folder: string): boolean {
      const siblings = folders.filter((each) => parentOf(each) === parentOf(folder))
      return (
        known.includes(folder) ||
        [folder, parentOf(folder)].some((each) =>
          ['commands', 'client', 'composition', 'running'].includes(nameOf(each)),
        ) ||
        siblings.length === 1
      )
    }
  })
})
