/*
 * The rooms of this repository, and who may import whom. `npm run check` reports each import that this table forbids.
 * `npm run rooms` writes the picture in docs/architecture.md from it.
 */

/** A folder of the server with one subject. */
export interface Room {
  /** Below `server/src`; a room within a room has a slash. */
  readonly path: string
  /** The rooms that it may import, besides itself; siblings only for a room within a room. */
  readonly imports: readonly string[]
  /** Packages that it may not import; a name that ends with `*` stands for all packages that begin so. */
  readonly forbiddenPackages?: readonly string[]
  /** Folders that only the room itself, `composition/` and `doctor.ts` may import. */
  readonly inside?: readonly string[]
}

const ground = ['platform', 'contract']
const middle = ['sources', 'builds', 'runtimes', 'logs', 'gateway', 'http']

/** A feature knows no other feature: what it needs of another is a function that its composer hands in. */
const feature = (path: string): Room => ({ path, imports: [...middle, ...ground] })

export const serverRooms: readonly Room[] = [
  { path: 'contract', imports: [], forbiddenPackages: ['koa', 'kysely', 'pg', 'node:*', 'undici'] },
  { path: 'platform', imports: ['contract'] },
  { path: 'sources', imports: ground },
  { path: 'builds', imports: ground },
  { path: 'runtimes', imports: ground, inside: ['docker', 'process'] },
  { path: 'logs', imports: ground },
  {
    path: 'gateway',
    imports: ground,
    inside: ['protocol', 'http1', 'proxy', 'routing', 'program'],
  },
  { path: 'edge', imports: ground },
  { path: 'http', imports: ground },
  feature('accounts'),
  feature('projects'),
  feature('apps'),
  feature('databases'),
  feature('domains'),
  feature('certificates'),
  feature('storage'),
  feature('webhooks'),
  feature('deployments'),
  feature('runs'),
]

/** Folders within rooms, where they are more than one; a folder may import its siblings of this list. */
export const innerRooms: readonly Room[] = [
  { path: 'platform/database', imports: [] },
  { path: 'platform/leadership', imports: ['platform/database'] },
  { path: 'platform/migrations', imports: [] },
  { path: 'platform/postgres', imports: ['platform/disk'] },
  { path: 'platform/versions', imports: ['platform/migrations', 'platform/postgres', 'platform/processes'] },
  { path: 'platform/cgroups', imports: ['platform/processes'] },
  { path: 'platform/config', imports: [] },
  { path: 'platform/control', imports: ['platform/versions'] },
  { path: 'platform/disk', imports: [] },
  { path: 'platform/dns', imports: [] },
  { path: 'platform/processes', imports: [] },
  { path: 'platform/sandbox', imports: [] },
  { path: 'platform/service-manager', imports: ['platform/versions'] },
  { path: 'builds/detectors', imports: [] },
  { path: 'builds/detectors/node', imports: [] },
  { path: 'builds/detectors/python', imports: [] },
  { path: 'runtimes/network', imports: [] },
  { path: 'runtimes/docker', imports: ['runtimes/network'] },
  { path: 'runtimes/docker/network', imports: ['runtimes/network'] },
  {
    path: 'runtimes/docker/dockerfiles',
    imports: [],
  },
  { path: 'runtimes/process', imports: ['runtimes/network'] },
  { path: 'runtimes/process/network', imports: ['runtimes/network'] },
  {
    path: 'runtimes/process/confinement',
    imports: ['runtimes/process/network', 'runtimes/network'],
  },
  { path: 'runtimes/process/terminal', imports: [] },
  { path: 'runtimes/process/toolchain', imports: [] },
  { path: 'gateway/protocol', imports: [] },
  { path: 'gateway/http1', imports: [] },
  { path: 'gateway/proxy', imports: ['gateway/protocol', 'gateway/http1'] },
  { path: 'gateway/routing', imports: ['gateway/protocol', 'gateway/http1', 'gateway/proxy'] },
  { path: 'gateway/program', imports: ['gateway/protocol', 'gateway/routing'] },
  { path: 'certificates/acme', imports: [] },
  { path: 'accounts/trust', imports: [] },
  { path: 'apps/metrics', imports: [] },
  { path: 'domains/checks', imports: [] },
]

/** The folders of the dashboard, below `server/dashboard/src`. */
export const dashboardRooms: readonly Room[] = [
  { path: 'data', imports: [] },
  { path: 'ui', imports: [] },
  { path: 'shell', imports: ['data', 'ui'] },
  { path: 'pages', imports: ['data', 'ui', 'shell'] },
  { path: 'ui/controls', imports: [] },
  { path: 'ui/display', imports: [] },
  { path: 'ui/page', imports: ['ui/controls'] },
  { path: 'ui/forms', imports: ['ui/controls', 'ui/page'] },
  { path: 'ui/dialogs', imports: ['ui/controls', 'ui/forms'] },
  { path: 'pages/get-started', imports: [] },
  { path: 'pages/plans', imports: [] },
  { path: 'pages/project', imports: ['pages/plans'] },
  { path: 'pages/projects', imports: ['pages/plans'] },
  { path: 'pages/settings', imports: [] },
  { path: 'pages/sign-in', imports: [] },
  { path: 'pages/webhooks', imports: [] },
  { path: 'pages/project/databases', imports: [] },
  { path: 'pages/project/deployments', imports: [] },
  { path: 'pages/project/overview', imports: [] },
  { path: 'pages/project/storage', imports: [] },
  { path: 'pages/project/trust', imports: [] },
]

/** The rooms of which `commands/client` uses nothing. */
const notInPackage = serverRooms
  .map(({ path }) => path)
  .filter((path) => !['contract', 'platform', 'http'].includes(path))

/** The programs above the rooms, each with what it may not import. Only composers reach inside of rooms. */
export const programs: readonly { readonly paths: readonly string[]; readonly forbidden: readonly string[] }[] = [
  { paths: ['doctor.ts', 'composition'], forbidden: ['cli.ts', 'commands'] },
  {
    paths: ['server.ts', 'administration.ts'],
    forbidden: ['cli.ts', 'commands', ...insides()],
  },
  { paths: ['commands'], forbidden: ['cli.ts', ...insides()] },
  // These commands are a package of their own, which has nothing of a server.
  {
    paths: ['commands/client'],
    forbidden: [
      'cli.ts',
      'server.ts',
      'administration.ts',
      'doctor.ts',
      'composition',
      'commands/shared.ts',
      'commands/keys.ts',
      ...notInPackage,
    ],
  },
]

function insides(): string[] {
  return serverRooms.flatMap(({ path, inside = [] }) => inside.map((folder) => `${path}/${folder}`))
}

/** A package of this repository, or a program beside the packages. */
export interface Package {
  readonly folder: string
  /** Files and folders outside its folder that it may import; a folder ends with a slash. */
  readonly files: readonly string[]
  /** The packages of this repository that it may import; a name that ends with `*` stands for all that begin so. */
  readonly ours: readonly string[]
  /** Other packages that it may not import. */
  readonly forbiddenPackages?: readonly string[]
  readonly advice: string
}

export const packages: readonly Package[] = [
  {
    folder: 'receiver/src',
    files: [],
    ours: [],
    forbiddenPackages: ['koa', 'koa2', 'koa-body', '@koa/*'],
    advice: 'the receiver imports nothing of this repository, and zod is its one runtime dependency',
  },
  {
    folder: 'action/src',
    files: [],
    ours: ['@fairlead/server/client', '@fairlead/server/exchange', '@fairlead/server/dotenv'],
    advice: 'import the typed client, the exchange of tokens and the reader of .env files by their names',
  },
  {
    folder: 'cli/src',
    files: ['server/dist/commands/client/'],
    ours: [],
    advice: 'import the built commands of users in server/dist/commands/client',
  },
  {
    folder: 'demo',
    files: ['test/harness/'],
    ours: ['@fairlead/*'],
    advice: 'use what users use: the command, the client, the packages by their names',
  },
  {
    folder: 'server/dashboard/src',
    files: [],
    ours: ['@fairlead/server/client', '@fairlead/server/dashboard-client', '@fairlead/server/dotenv'],
    forbiddenPackages: ['node:*'],
    advice: 'import the typed client and the reader of .env files of the server by their names',
  },
  { folder: 'server/src', files: [], ours: ['@fairlead/receiver'], advice: 'import other packages by their names' },
]
