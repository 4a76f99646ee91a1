import {
  dashboardPatterns,
  dashboardRooms,
  innerRooms,
  otherPackages,
  type Pattern,
  packageRules,
  programs,
  type Room,
  serverRooms,
} from './table.ts'

/** Returns the settings of Biome, with the import rules of the table. */
export function biomeSettings(): object {
  return {
    ...base,
    overrides: [
      ...packageRules.map(({ includes, patterns }) => restricted(includes, patterns)),
      ...overridesOf({ folder: 'server/src', rooms: [...serverRooms, ...innerRooms], patterns: serverPatterns }),
      ...programs.map(({ paths, forbidden }) => restricted(paths.map(filesOf), programPatterns(paths, forbidden))),
      ...overridesOf({ folder: 'server/dashboard/src', rooms: dashboardRooms, patterns: dashboardPatterns }),
      ...otherOverrides,
    ],
  }
}

const filesOf = (path: string): string => `server/src/${path}${path.endsWith('.ts') ? '' : '/**'}`

const programPatterns = (paths: readonly string[], forbidden: readonly string[]): Pattern[] => [
  { group: forbidden.map(anywhere), message: `${paths.join(', ')} may not import ${forbidden.join(', ')}.` },
  otherPackages,
]

/** Matches the imports of a folder or file, however many folders the importing file stands below it. */
const anywhere = (path: string): string => (path.endsWith('.ts') ? `**/${path}` : `**/${path}/**`)

const serverPatterns: readonly Pattern[] = [
  {
    group: ['server.ts', 'administration.ts', 'doctor.ts', 'cli.ts', 'commands', 'composition', 'running'].map(
      anywhere,
    ),
    message: 'A room knows nothing of the programs that are made of it.',
  },
  otherPackages,
]

interface House {
  readonly folder: string
  readonly rooms: readonly Room[]
  /** The rules that all of its rooms share. */
  readonly patterns: readonly Pattern[]
}

/** Returns an override for each room, the outer ones first. */
function overridesOf(house: House): object[] {
  return house.rooms
    .toSorted((a, b) => a.path.split('/').length - b.path.split('/').length)
    .map((room) => restricted([`${house.folder}/${room.path}/**`], patternsOf(room, house)))
}

/** A later override replaces an earlier one's rule for the same file, so a room repeats the rules of the one around it. */
function patternsOf(room: Room, { rooms, patterns }: House): Pattern[] {
  const around = rooms
    .filter(({ path }) => room.path.startsWith(`${path}/`))
    .toSorted((a, b) => b.path.length - a.path.length)[0]
  const inherited = around === undefined ? patterns : patternsOf(around, { folder: '', rooms, patterns })
  return [...ownPatterns(room, rooms), ...inherited]
}

function ownPatterns(room: Room, rooms: readonly Room[]): Pattern[] {
  const siblings = rooms.filter(({ path }) => parentOf(path) === parentOf(room.path) && path !== room.path)
  const forbidden = siblings.filter(({ path }) => !room.imports.includes(path))
  const insides = siblings
    .filter(({ path }) => room.imports.includes(path))
    .flatMap(({ path, inside = [] }) => inside.map((folder) => anywhere(`${path}/${folder}`)))
  return [
    {
      group: forbidden.flatMap(({ path }) => importsOf(path)),
      message: `${room.path} may import ${room.imports.length === 0 ? 'none of its siblings' : room.imports.join(', ')}.`,
    },
    { group: insides, message: 'This folder is internal to its room.' },
    { group: room.forbiddenPackages ?? [], message: `${room.path} does not use this package.` },
  ].filter(({ group }) => group.length > 0)
}

const parentOf = (path: string): string => path.split('/').slice(0, -1).join('/')

/**
 * The ways in which the files of a sibling write the import of a folder. No folder inside of a room has the name of a
 * room, so its name alone tells a room; the names of inner folders may come twice in different rooms, and `..` tells
 * them apart.
 */
function importsOf(path: string): string[] {
  const name = path.split('/').at(-1) ?? path
  return path === name ? [anywhere(name)] : [1, 2, 3].map((depth) => `${'../'.repeat(depth)}${name}/**`)
}

function restricted(includes: readonly string[], patterns: readonly Pattern[]): object {
  const noRestrictedImports = { level: 'error', options: { patterns } }
  return { includes, linter: { rules: { style: { noRestrictedImports } } } }
}

const base = {
  $schema: './node_modules/@biomejs/biome/configuration_schema.json',
  vcs: { enabled: true, clientKind: 'git', useIgnoreFile: true },
  files: {
    includes: ['**', '!action/dist', '!package-lock.json', '!server/assets/fairlead.schema.json', '!test/corpus/apps'],
  },
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
  // Generated: each rule on one line.
  { includes: ['biome.json'], json: { formatter: { lineWidth: 320 } } },
  {
    includes: ['server/src/**', '!server/src/platform/config.ts', '!server/src/platform/config/**'],
    linter: { rules: { style: { noProcessEnv: 'error' } } },
  },
  {
    includes: ['*.config.ts', 'test/harness/global-setup.ts', 'server/dashboard/vite.config.ts'],
    linter: { rules: { style: { noDefaultExport: 'off' } } },
  },
  {
    includes: ['server/bin/**', 'cli/bin/**', 'scripts/check-node.js'],
    linter: { rules: { suspicious: { noVar: 'off' }, style: { useTemplate: 'off' } } },
  },
  {
    includes: ['server/dashboard/src/theme.css'],
    linter: { rules: { complexity: { noImportantStyles: 'off' } } },
  },
]
