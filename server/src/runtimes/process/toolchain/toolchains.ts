import { createHash } from 'node:crypto'
import { join } from 'node:path'
import satisfies from 'semver/functions/satisfies.js'
import type { Caches } from '../../../platform/disk/caches.ts'
import { exists } from '../../../platform/files.ts'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import type { ToolName, ToolRequest } from '../../../platform/toolchain.ts'
import type { ReleasePaths } from '../release-folders.ts'
import { type OwnTools, prepareBin } from './own-programs.ts'
import { type Machine, packageOf } from './packages.ts'
import { folderName, readTools, type Tools, writeTools } from './record.ts'
import type { ToolRegistry } from './registry.ts'
import { locate, resolveTools } from './resolve.ts'

/** Gives each release its programs: programs of the server, or downloads that releases share. */
export interface Toolchains {
  /**
   * Chooses, downloads and records versions for a release.
   *
   * @param say writes a line of the build log
   * @throws RuntimeError when a program is unavailable, or its hash differs from the app's
   */
  equip(
    paths: Pick<ReleasePaths, 'toolchain'>,
    requests: readonly ToolRequest[],
    options: { readonly signal: AbortSignal; readonly say: (line: string) => Promise<unknown> },
  ): Promise<void>
  /**
   * Returns the folder that comes first on the PATH of a release. Downloads deleted tools again.
   *
   * @throws RegistryError when this is not possible
   */
  binOf(paths: Pick<ReleasePaths, 'toolchain'>): Promise<string>
  /** Returns this folder and the folders of programs that not all releases share. Throws as `binOf` does. */
  programsOf(
    paths: Pick<ReleasePaths, 'toolchain'>,
  ): Promise<{ readonly bin: string; readonly folders: readonly string[] }>
}

/** A restart must not wait for a hanging registry. */
const restoreDeadlineMs = 120_000

interface StoreOptions {
  /** The folder for downloaded tools. The users of apps can read it. */
  readonly directory: string
  readonly own: OwnTools
  readonly registry: ToolRegistry
  readonly caches: Pick<Caches, 'use'>
  readonly machine: Machine
}

/**
 * @param options.bin the folder of the programs of the server
 * @param options.now the current time, which decides whether a version is past its end of life
 */
export function createToolchains(
  options: StoreOptions & { readonly bin: string; readonly now?: () => Date },
): Toolchains {
  const { directory, registry, machine, own, now = () => new Date() } = options
  const store = createStore(options)
  const versionsOf = (request: ToolRequest, signal: AbortSignal) =>
    registry.versions(packageOf(request.tool, request.range, machine).name, signal)

  const toolsOf = async (paths: Pick<ReleasePaths, 'toolchain'>) => withoutOwnNode(await readTools(paths), options)
  const binOf: Toolchains['binOf'] = async (paths) => {
    const tools = await toolsOf(paths)
    const entries = Object.entries(tools) as [ToolName, string][]
    if (entries.length === 0) return options.bin
    const signal = AbortSignal.timeout(restoreDeadlineMs)
    for (const [tool, version] of entries) {
      if (!(await exists(join(directory, folderName(tool, version))))) await store.download(tool, version, signal)
    }
    return store.prepare(tools)
  }

  return {
    async equip(paths, requests, { signal, say }) {
      const tools = await resolveTools(requests, {
        ...{ own, directory, now: now(), say },
        versions: (request) => versionsOf(request, signal),
        async download(soFar, tool, version) {
          // Before the download, so that the cleanup of caches spares the tool from then on.
          await writeTools(paths, { ...soFar, [tool]: version })
          return store.download(tool, version, signal)
        },
      })
      signal.throwIfAborted()
      await writeTools(paths, tools)
    },

    binOf,

    async programsOf(paths) {
      const entries = Object.entries(await toolsOf(paths)) as [ToolName, string][]
      return {
        bin: await binOf(paths),
        folders: entries.map(([tool, version]) => join(directory, folderName(tool, version))),
      }
    },
  }
}

/** Leaves Node out where the Node of the server replaces it: the same version, or a later version of the same major. */
async function withoutOwnNode(
  tools: Tools,
  { own, directory }: Pick<StoreOptions, 'own' | 'directory'>,
): Promise<Tools> {
  const { node, ...others } = tools
  const isOwn = node !== undefined && (own.versions.node ?? []).some((version) => satisfies(version, `^${node}`))
  return isOwn && !(await exists(join(directory, folderName('node', node)))) ? others : tools
}

/** The downloaded tools, and one folder of programs for each combination of tools. */
function createStore({ directory, own, registry, caches, machine }: StoreOptions) {
  const lock = createKeyedLock()
  const prepared = new Set<string>()
  return {
    /** Downloads a tool and returns its folder. Concurrent builds share one download. */
    async download(tool: ToolName, version: string, signal: AbortSignal): Promise<string> {
      const path = join(directory, folderName(tool, version))
      await caches.use(path, signal, async () => {
        if (!(await exists(path))) await registry.download(packageOf(tool, version, machine), version, path, signal)
      })
      return path
    },

    async prepare(tools: Tools): Promise<string> {
      const chosen = await locate(tools, own, { directory, machine })
      const name = createHash('sha256').update(JSON.stringify(chosen)).digest('hex').slice(0, 16)
      const bin = join(directory, `bin-${name}`)
      await lock(bin, async () => {
        if (prepared.has(bin) && (await exists(bin))) return
        await prepareBin({ ...chosen, directory: bin })
        prepared.add(bin)
      })
      return bin
    },
  }
}
