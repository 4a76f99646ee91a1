import { join } from 'node:path'
import { volumeVariable } from '../contract/volume-rules.ts'
import type { Command } from '../platform/command.ts'
import { SYSTEM_FOLDERS } from '../platform/disk/folders.ts'

/** The folders of a release as its commands know them. All paths are absolute. */
export interface CommandPaths {
  /** The sources, and what the build has made of them. The working directory of every command. */
  readonly source: string
  /** `HOME` */
  readonly home: string
  /** `TMPDIR` */
  readonly temporary: string
  /** Downloads of earlier builds. */
  readonly cache: string
}

/** Tells an app the id of its release. */
export const RELEASE_MARKER = 'FAIRLEAD_DEPLOYMENT_ID'

/** Tells the package managers of the toolchain where the build's cache is. */
export const CACHE_VARIABLE = 'FAIRLEAD_CACHE'

/** The purpose of a command, which decides what it sees. */
export type CommandScope =
  /** A build: it has a cache and the operator's variables, such as a registry, and no `PORT`. */
  | { readonly kind: 'build'; readonly operator: Readonly<Record<string, string>> }
  /** Without a port for a command that takes no connections. */
  | { readonly kind: 'app'; readonly port: number | null }

/**
 * Returns the folders that commands are looked up in. The server's own come before the app's, so that `npm` and `node`
 * are the server's.
 *
 * @param bin the folder that `prepareBin` has filled
 */
export const searchPath = ({ source }: Pick<CommandPaths, 'source'>, bin: string): string[] => [
  bin,
  join(source, 'node_modules', '.bin'),
  join(source, '.venv', 'bin'),
  ...SYSTEM_FOLDERS,
  // The programs that a build in Go makes. They come last: Rails has programs of its own there.
  join(source, 'bin'),
]

/**
 * Returns the whole environment of a command, built from nothing: the server's own variables never reach an app. The
 * app's variables win over defaults and over the operator's; variables that the platform depends on win over the app's.
 *
 * @param place.bin the folder that `prepareBin` has filled
 * @param place.memoryBytes all that the command may use
 */
export function commandEnvironment(
  release: {
    readonly id: string
    readonly paths: CommandPaths
    readonly variables: Readonly<Record<string, string>>
    /** The folders of its volumes as its commands know them, by the names of the volumes. */
    readonly volumeFolders?: Readonly<Record<string, string>> | undefined
  },
  command: Pick<Command, 'env' | 'nodeOptions' | 'caches' | 'settings'>,
  place: { readonly scope: CommandScope; readonly bin: string; readonly memoryBytes: number },
): Record<string, string> {
  const { scope, bin, memoryBytes } = place
  const { paths } = release
  const { PORT: _, ...chosen }: Record<string, string> = {
    LANG: 'C.UTF-8',
    NODE_ENV: 'production',
    NODE_OPTIONS: heapOption(memoryBytes),
    ...settingsOf(command, scope, paths, memoryBytes),
    ...(scope.kind === 'build' ? { ...cacheFolders(command, paths), ...scope.operator } : {}),
    ...command.env,
    ...release.variables,
  }
  const { nodeOptions = [] } = command
  return {
    ...chosen,
    ...(nodeOptions.length === 0 ? {} : { NODE_OPTIONS: [chosen['NODE_OPTIONS'], ...nodeOptions].join(' ').trim() }),
    ...(scope.kind === 'build' ? { [CACHE_VARIABLE]: paths.cache } : {}),
    ...(scope.kind === 'app' && scope.port !== null ? { PORT: String(scope.port) } : {}),
    ...(scope.kind === 'app' ? variablesOfVolumes(release.volumeFolders) : {}),
    PATH: searchPath(paths, bin).join(':'),
    HOME: paths.home,
    TMPDIR: paths.temporary,
    [RELEASE_MARKER]: release.id,
  }
}

/** A Node with a full heap of this size needs some 110 MB besides, and npm beside it 20. */
const shareOfHeap = 2 / 3

/**
 * Returns the option that limits the heap of each Node. Node sizes it by the memory of the machine, or takes half of a
 * control group's, and collects no garbage until then: it would be ended while most of its memory could be freed.
 */
const heapOption = (memoryBytes: number): string =>
  `--max-old-space-size=${Math.floor((memoryBytes * shareOfHeap) / 2 ** 20)}`

function cacheFolders({ caches = {} }: Pick<Command, 'caches'>, { cache }: Pick<CommandPaths, 'cache'>) {
  return Object.fromEntries(Object.entries(caches).map(([name, folder]) => [name, join(cache, folder)]))
}

/** Returns the variables that tell a command where its volumes are. */
export function variablesOfVolumes(folders: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(folders).map(([name, folder]) => [volumeVariable(name), folder]))
}

function settingsOf(
  { settings = {} }: Pick<Command, 'settings'>,
  { kind }: CommandScope,
  { cache }: Pick<CommandPaths, 'cache'>,
  memoryBytes: number,
) {
  const there = Object.entries(settings).filter(([, text]) => kind === 'build' || !text.includes('{cache}'))
  const memory = String(Math.floor(memoryBytes / 1_000_000))
  return Object.fromEntries(
    there.map(([name, text]) => [name, text.replaceAll('{memory}', memory).replaceAll('{cache}', () => cache)]),
  )
}
