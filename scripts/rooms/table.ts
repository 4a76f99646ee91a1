/*
 * The rooms of this repository, and who may import whom. `npm run rooms` writes biome.json and the picture in
 * docs/architecture.md from this table; `npm run check` fails when they differ from it.
 */

/** A folder of the server with one subject. */
export interface Room {
  /** Below `server/src`; a room within a room has a slash. */
  readonly path: string
  /** The rooms that it may import, besides itself. Of a room within a room: its siblings. */
  readonly imports: readonly string[]
  /** Packages that it may not import. */
  readonly forbiddenPackages?: readonly string[]
  /** Folders that only the room itself and the composers may import. */
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
  { path: 'runtimes', imports: ground, inside: ['process'] },
  { path: 'logs', imports: ground },
  { path: 'gateway', imports: ground, inside: ['engine', 'exchange'] },
  { path: 'http', imports: ground },
  feature('accounts'),
  feature('projects'),
  feature('apps'),
  feature('databases'),
  feature('storage'),
  feature('webhooks'),
  feature('deployments'),
]

/** Rooms within rooms; a room may import its siblings of this list. */
export const innerRooms: readonly Room[] = [
  { path: 'deployments/state', imports: [] },
  { path: 'deployments/job', imports: ['deployments/state'] },
  { path: 'deployments/owners', imports: ['deployments/job', 'deployments/state'] },
  { path: 'deployments/reconciler', imports: ['deployments/job', 'deployments/state'] },
  { path: 'builds/source', imports: [] },
  { path: 'builds/detectors', imports: ['builds/source'] },
]

/** The programs above the rooms, each with what it may not import. */
export const programs: readonly { readonly paths: readonly string[]; readonly forbidden: readonly string[] }[] = [
  { paths: ['server.ts', 'administration.ts', 'doctor.ts', 'composition'], forbidden: ['cli.ts', 'commands'] },
  { paths: ['commands'], forbidden: ['cli.ts'] },
]

/** Rules of the packages beside the server. */
export const packageRules: readonly {
  readonly includes: readonly string[]
  readonly patterns: readonly { readonly group: readonly string[]; readonly message: string }[]
}[] = [
  {
    includes: ['receiver/src/**'],
    patterns: [
      {
        group: ['@fairlead/*', '**/server/**', '**/action/**', '**/test/**'],
        message: 'The receiver imports nothing of this repository.',
      },
      { group: ['koa', 'koa2', 'koa-body', '@koa/*'], message: "The receiver's one runtime dependency is zod." },
    ],
  },
  {
    includes: ['action/src/**'],
    patterns: [
      {
        group: ['**/server/**', '!@fairlead/server/client', '@fairlead/receiver'],
        message: 'The action speaks to the API through the typed client alone.',
      },
    ],
  },
  {
    includes: ['demo/**'],
    patterns: [
      {
        group: ['**/server/src/**', '**/receiver/src/**'],
        message: 'The demo uses what users use: the command, the client, the packages.',
      },
    ],
  },
  {
    includes: ['server/dashboard/src/**'],
    patterns: [
      {
        group: [
          'node:*',
          '**/server/src/**',
          '**/receiver/**',
          '**/action/**',
          '**/test/**',
          '@fairlead/server/*',
          '!@fairlead/server/client',
          '!@fairlead/server/dashboard-client',
        ],
        message: 'The dashboard speaks to the server through its typed client alone.',
      },
    ],
  },
]
