import { innerRooms, packageRules, programs, type Room, serverRooms } from './table.ts'

interface Pattern {
  readonly group: readonly string[]
  readonly message: string
}

/** Folders lie at most this deep below `server/src`. */
const deepest = 4

/** Returns the settings of Biome, with the import rules of the table. */
export function biomeSettings(): object {
  return {
    ...base,
    overrides: [
      ...packageRules.map(({ includes, patterns }) => restricted(includes, patterns)),
      ...serverRooms.flatMap((room) => overridesOf(room)),
      ...programs.map(({ paths, forbidden }) =>
        restricted(
          paths.map((path) => `server/src/${path}${path.endsWith('.ts') ? '' : '/**'}`),
          [
            { group: forbidden.map(anywhere), message: `${paths.join(', ')} stand below ${forbidden.join(' and ')}.` },
            otherPackages,
          ],
        ),
      ),
      ...otherOverrides,
    ],
  }
}

const otherPackages: Pattern = {
  group: ['**/receiver/src/**', '**/action/**', '**/test/**', '**/demo/**'],
  message: 'Other packages are reached by their names.',
}

const anywhere = (path: string): string => (path.endsWith('.ts') ? `**/${path}` : `**/${path}/**`)

/**
 * One override for each depth, since patterns are compared with the import as it is written: a file two folders below
 * `server/src` reaches another room by `../../`.
 */
function overridesOf(room: Room): object[] {
  const inner = innerRooms.filter(({ path }) => path.startsWith(`${room.path}/`))
  const own = Array.from({ length: deepest }, (_, index) => index + 1).map((depth) =>
    restricted(filesAt(room.path, depth), patternsOf(room, depth)),
  )
  // A later override takes the place of an earlier one for the same file, so it repeats the room's own patterns.
  const within = inner.flatMap((each) =>
    Array.from({ length: deepest - 1 }, (_, index) => index + 2).map((depth) =>
      restricted(filesAt(each.path, depth - 1), [...patternsOf(room, depth), ...siblingPatterns(each, inner, depth)]),
    ),
  )
  return [...own, ...within]
}

/** The files of a room that lie `depth` folders below the room's parent. */
const filesAt = (path: string, depth: number): string[] => [
  `server/src/${path}${'/*'.repeat(depth - 1)}/*.ts`,
  `server/src/${path}${'/*'.repeat(depth - 1)}/*.tsx`,
]

function patternsOf(room: Room, depth: number): Pattern[] {
  const up = '../'.repeat(depth)
  const forbidden = serverRooms.filter(({ path }) => path !== room.path && !room.imports.includes(path))
  const insides = serverRooms
    .filter(({ path }) => room.imports.includes(path))
    .flatMap(({ path, inside = [] }) => inside.map((folder) => `${up}${path}/${folder}/**`))
  const above = ['server.ts', 'administration.ts', 'doctor.ts', 'cli.ts', 'commands/**', 'composition/**']
  return [
    { group: above.map((path) => up + path), message: 'A room knows nothing of the programs that are made of it.' },
    {
      group: forbidden.map(({ path }) => `${up}${path}/**`),
      message: `The room ${room.path} may import ${room.imports.length === 0 ? 'no other room' : room.imports.join(', ')}.`,
    },
    ...(insides.length === 0 ? [] : [{ group: insides, message: 'This folder is the business of its own room.' }]),
    ...(room.forbiddenPackages === undefined
      ? []
      : [{ group: room.forbiddenPackages, message: `The room ${room.path} does without this package.` }]),
    otherPackages,
  ]
}

function siblingPatterns(room: Room, inner: readonly Room[], depth: number): Pattern[] {
  const up = '../'.repeat(depth - 1)
  const forbidden = inner.filter(({ path }) => path !== room.path && !room.imports.includes(path))
  if (forbidden.length === 0) return []
  return [
    {
      group: forbidden.map(({ path }) => `${up}${path.split('/').at(-1)}/**`),
      message: `Inside of a room, too, imports have one direction: ${room.path} may import ${room.imports.length === 0 ? 'no sibling' : room.imports.join(', ')}.`,
    },
  ]
}

function restricted(includes: readonly string[], patterns: readonly Pattern[]): object {
  const noRestrictedImports = { level: 'error', options: { patterns } }
  return { includes, linter: { rules: { style: { noRestrictedImports } } } }
}

const base = {
  $schema: './node_modules/@biomejs/biome/configuration_schema.json',
  vcs: { enabled: true, clientKind: 'git', useIgnoreFile: true },
  files: { includes: ['**', '!action/dist', '!package-lock.json', '!biome.json'] },
  formatter: { indentStyle: 'space', indentWidth: 2, lineWidth: 120 },
  css: { parser: { tailwindDirectives: true } },
  javascript: { formatter: { quoteStyle: 'single', semicolons: 'asNeeded', trailingCommas: 'all' } },
  linter: {
    enabled: true,
    rules: {
      preset: 'recommended',
      complexity: { useLiteralKeys: 'off' },
      nursery: { noFloatingPromises: 'error' },
      style: {
        noDefaultExport: 'error',
        noEnum: 'error',
        useImportType: 'error',
        useNodejsImportProtocol: 'error',
      },
      suspicious: { noImportCycles: { level: 'error', options: { ignoreTypes: false } } },
    },
  },
}

const otherOverrides = [
  {
    includes: ['server/src/**', '!server/src/platform/config.ts', '!server/src/platform/config/**'],
    linter: { rules: { style: { noProcessEnv: 'error' } } },
  },
  {
    includes: ['*.config.ts', 'test/harness/global-setup.ts', 'server/dashboard/vite.config.ts'],
    linter: { rules: { style: { noDefaultExport: 'off' } } },
  },
  {
    includes: ['server/bin/**', 'scripts/check-node.js'],
    linter: { rules: { suspicious: { noVar: 'off' }, style: { useTemplate: 'off' } } },
  },
  {
    includes: ['server/dashboard/src/theme.css'],
    linter: { rules: { complexity: { noImportantStyles: 'off' } } },
  },
]
