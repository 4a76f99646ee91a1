import { join } from 'node:path'
import { volumeVariable } from '../contract/volume-rules.ts'
import type { Command } from '../platform/command.ts'
import { SYSTEM_FOLDERS } from '../platform/disk/folders.ts'

/** The folders of a release as its commands see them. All paths are absolute. */
export interface CommandPaths {
  /** The sources, and the output of the build. Every command starts here. */
  readonly source: string
  /** `HOME` */
  readonly home: string
  /** `TMPDIR` */
  readonly temporary: string
  readonly cache: string
}

/** Tells an app the id of its release. */
export const RELEASE_MARKER = 'FAIRLEAD_DEPLOYMENT_ID'

/** Tells the toolchain's package managers where the build cache is. */
export const CACHE_VARIABLE = 'FAIRLEAD_CACHE'

export type CommandScope =
  /** A build: it has a cache and the variables of the operator, such as a registry, and no `PORT`. */
  | { readonly kind: 'build'; readonly operator: Readonly<Record<string, string>> }
  /** `port` is null for a command without incoming connections. */
  | { readonly kind: 'app'; readonly port: number | null }

/**
 * Returns the folders in which commands are looked up. The folder of the server comes before the folders of the app, so
 * `npm` and `node` are the programs of the server.
 *
 * @param bin the folder that `prepareBin` has filled
 */
export const searchPath = ({ source }: Pick<CommandPaths, 'source'>, bin: string): string[] => [
  bin,
  join(source, 'node_modules', '.bin'),
  join(source, '.venv', 'bin'),
  ...SYSTEM_FOLDERS,
  // Go builds put their programs here. The folder comes last, because Rails has its own programs in it.
  join(source, 'bin'),
]

/**
 * Returns the whole environment of a command, built from nothing: an app never sees the variables of the server.
 * Variables of the app override defaults and variables of the operator; variables that the platform depends on override
 * variables of the app.
 *
 * @param place.bin the folder that `prepareBin` has filled
 * @param place.memoryBytes the memory limit of the command
 */
export function commandEnvironment(
  release: {
    readonly id: string
    readonly paths: CommandPaths
    readonly variables: Readonly<Record<string, string>>
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

/**
 * The share of the memory for the heap of Node. Besides a full heap of this size, Node needs some 110 MB, and npm beside
 * it 20 MB.
 */
const shareOfHeap = 2 / 3

/**
 * Returns the option that limits the heap of each Node process. By default Node sizes the heap by the memory of the
 * machine, or takes half of a control group, and collects no garbage until then: it would be killed while it could free
 * most of its memory.
 */
const heapOption = (memoryBytes: number): string =>
  `--max-old-space-size=${Math.floor((memoryBytes * shareOfHeap) / 2 ** 20)}`

function cacheFolders({ caches = {} }: Pick<Command, 'caches'>, { cache }: Pick<CommandPaths, 'cache'>) {
  return Object.fromEntries(Object.entries(caches).map(([name, folder]) => [name, join(cache, folder)]))
}

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
