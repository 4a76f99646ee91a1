import { dirname, join } from 'node:path'
import satisfies from 'semver/functions/satisfies.js'
import valid from 'semver/functions/valid.js'
import maxSatisfying from 'semver/ranges/max-satisfying.js'
import minVersion from 'semver/ranges/min-version.js'
import { readOptional } from '../../../platform/files.ts'
import { isModernYarn, type ToolName, type ToolRequest } from '../../../platform/toolchain.ts'
import { RuntimeError } from '../../runtime.ts'
import type { OwnTools, PrepareBinOptions } from './own-programs.ts'
import { type Machine, packageOf, titles } from './packages.ts'
import { downloadedVersions, folderName, type Tools } from './record.ts'
import { hasDigest, RegistryError } from './registry.ts'

export interface ResolveParts {
  readonly own: OwnTools
  readonly directory: string
  readonly now: Date
  /** Lists the versions in the registry. Rejects with a `RegistryError`. */
  readonly versions: (request: ToolRequest) => Promise<readonly string[]>
  /** Downloads a version and returns its folder. Rejects with a `RegistryError`. */
  readonly download: (soFar: Tools, tool: ToolName, version: string) => Promise<string>
  readonly say: (line: string) => Promise<unknown>
}

/**
 * Chooses and downloads the tools of a release. The first of several requests for one tool counts. Returns the tools
 * that do not come from the server, and a requested Node in any case.
 */
export async function resolveTools(requests: readonly ToolRequest[], parts: ResolveParts): Promise<Tools> {
  const tools: Partial<Record<ToolName, string>> = {}
  const seen = new Set<ToolName>()
  for (const request of requests) {
    if (seen.has(request.tool)) continue
    seen.add(request.tool)
    const version = await resolveTool(request, tools, parts)
    if (version !== null) tools[request.tool] = version
  }
  const npm = tools.node === undefined || seen.has('npm') ? null : npmFor(tools.node)
  if (npm === null) return tools
  // If this fails, the release uses the server's npm on the server's Node.
  const request: ToolRequest = { tool: 'npm', range: npm, from: `Node ${tools.node}` }
  const version = await resolveTool(request, tools, { ...parts, say: async () => undefined })
  return version === null ? tools : { ...tools, npm: version }
}

/** Records the Node of the server, too, so that the release keeps its major version when the server is upgraded. */
async function resolveTool(request: ToolRequest, soFar: Tools, parts: ResolveParts): Promise<string | null> {
  const { tool } = request
  const own = ownVersions(parts.own, tool)
  const fitting = ownThatFits(request, own)
  if (fitting !== undefined) return tool === 'node' ? fitting : null
  const downloaded = await downloadedVersions(parts.directory, tool)
  try {
    const exact = await takeExact(request, soFar, parts)
    if (exact !== null) return exact
    const choice = chooseFrom(request, await parts.versions(request), own, parts.now)
    if (choice === null) return await withoutIt(request, own, parts, 'the package registry has nothing as new')
    return await take(request, choice, soFar, parts)
  } catch (error) {
    if (!(error instanceof RegistryError)) throw error
    const why = `the package registry could not be read (${error.message})`
    const choice = chooseDownloaded(request, downloaded, parts.now)
    if (choice === null) return withoutIt(request, own, parts, why)
    await parts.say(`Warning: ${why}.`)
    return take(request, choice, soFar, parts)
  }
}

/** Takes an exact version without the list of versions. Returns null when the version does not exist. */
async function takeExact(request: ToolRequest, soFar: Tools, parts: ResolveParts): Promise<string | null> {
  const version = valid(request.range)
  const isThere = version !== null && hasProgram(request.tool, version)
  const choice = isThere ? chooseDownloaded(request, [version], parts.now) : null
  if (choice === null) return null
  try {
    return await take(request, choice, soFar, parts)
  } catch (error) {
    if (error instanceof RegistryError && error.isMissing) return null
    throw error
  }
}

async function take(
  { tool, hash, from }: ToolRequest,
  { version, notes }: Choice,
  soFar: Tools,
  { download, directory, say }: ResolveParts,
): Promise<string | null> {
  if (version !== null) {
    await download(soFar, tool, version)
    if (hash !== undefined && !(await hasDigest(join(directory, folderName(tool, version)), hash))) {
      const message = `${titles[tool]} ${version} of the package registry does not have the hash that ${from} states. Correct the hash, or remove it.`
      throw new RuntimeError('wrong_hash', message)
    }
  }
  for (const note of notes) await say(note)
  return version
}

/** Falls back to the package manager of the server. Other tools have no replacement. */
async function withoutIt(
  request: ToolRequest,
  own: readonly string[],
  { say }: ResolveParts,
  why: string,
): Promise<null> {
  const { tool } = request
  const [first] = own
  if (first === undefined || tool === 'node') {
    const has = tool === 'node' ? ` This server itself has Node ${first}.` : ''
    const message = `${asks(request)}, but ${why}.${has} Deploy again later, or ask for another version.`
    throw new RuntimeError('tool_unavailable', message)
  }
  await say(`Warning: ${asks(request)}, but ${why}. ${titles[tool]} ${own.join(' or ')} of the server is used instead.`)
  return null
}

function ownVersions({ versions }: OwnTools, tool: ToolName): readonly string[] {
  return versions[tool] ?? []
}

/** A version of a tool; null for the version of the server. */
interface Choice {
  readonly version: string | null
  readonly notes: readonly string[]
}

/** False for versions of Node whose packages contain an archive in place of the program. */
const hasProgram = (tool: ToolName, version: string): boolean =>
  tool !== 'node' || satisfies(version, '>=4.1.0', { includePrerelease: true })

const ownThatFits = ({ range }: ToolRequest, own: readonly string[]): string | undefined =>
  own.find((version) => satisfies(version, range))

/**
 * Chooses from the versions in the registry: the newest version in the range. When the requested version does not
 * exist, it chooses the newest version of the nearest newer major. Returns null when all versions are older.
 *
 * @param versions the versions in the registry
 * @param own the versions of the server
 */
function chooseFrom(
  request: ToolRequest,
  versions: readonly string[],
  own: readonly string[],
  now: Date,
): Choice | null {
  const { tool, range } = request
  const usable = versions.filter((version) => hasProgram(tool, version))
  const found = maxSatisfying([...usable], range)
  if (found !== null) return { version: found, notes: [reason(request, found), ...warnings(tool, found, now)] }
  const newer = nearestNewer(tool, [...usable, ...own], range)
  if (newer === null) return null
  const isOwn = own.includes(newer)
  const instead = `Warning: ${asks(request)}, which the package registry does not have. ${titles[tool]} ${newer} is used instead.`
  return { version: isOwn ? null : newer, notes: [instead, ...warnings(tool, newer, now)] }
}

/** Chooses from earlier downloads, without the registry. Returns null when no version is in the range. */
function chooseDownloaded(request: ToolRequest, downloaded: readonly string[], now: Date): Choice | null {
  const { tool, range } = request
  const found = maxSatisfying([...downloaded], range)
  if (found === null) return null
  return { version: found, notes: [reason(request, found), ...warnings(tool, found, now)] }
}

/** Odd majors of Node have short support, so they count only when a range names them. */
function nearestNewer(tool: ToolName, versions: readonly string[], range: string): string | null {
  const least = minVersion(range)
  if (least === null) return null
  const newer = versions.filter((version) => satisfies(version, `>=${least.version}`))
  const majors = newer.map(majorOf).filter((major) => tool !== 'node' || major % 2 === 0)
  return majors.length === 0 ? null : maxSatisfying(newer, `${Math.min(...majors)}`)
}

const majorOf = (version: string): number => Number(version.split('.')[0])

const warnings = (tool: ToolName, version: string, now: Date): string[] => {
  const warning = tool === 'node' ? endOfLife(version, now) : null
  return warning === null ? [] : [warning]
}

const reason = (request: ToolRequest, version: string): string =>
  request.range === '*'
    ? `${titles[request.tool]} ${version} is used, because of ${request.from}.`
    : `${titles[request.tool]} ${version} is used: ${asks(request)}.`

const asks = ({ tool, range, from }: ToolRequest): string =>
  range === '*' ? `${from} needs ${titles[tool]}` : `${from} asks for ${titles[tool]} ${range}`

/**
 * Finds the programs of the tools. A package manager that does not support the Node of the app runs on the Node of the
 * server.
 */
export async function locate(
  tools: Tools,
  own: OwnTools,
  { directory, machine }: { readonly directory: string; readonly machine: Machine },
): Promise<Omit<PrepareBinOptions, 'directory'>> {
  const { node, pnpm, yarn } = tools
  /** The path of a program, or of a script for Node; undefined for the tool of the server. */
  const pathOf = async (tool: ToolName): Promise<string | undefined> => {
    const version = tools[tool]
    if (version === undefined) return undefined
    const folder = join(directory, folderName(tool, version))
    const { program } = packageOf(tool, version, machine)
    return program === undefined ? scriptIn(folder, tool) : join(folder, program)
  }
  const isModern = yarn !== undefined && isModernYarn(yarn)
  const yarnPath = await pathOf('yarn')
  const clis = {
    npmCli: (await pathOf('npm')) ?? own.npmCli,
    pnpmCli: (await pathOf('pnpm')) ?? own.pnpmCli,
    yarnCli: isModern ? own.yarnCli : (yarnPath ?? own.yarnCli),
    modernYarnCli: isModern ? (yarnPath ?? own.modernYarnCli) : own.modernYarnCli,
  }
  const native = pnpm !== undefined && packageOf('pnpm', pnpm, machine).program !== undefined ? clis.pnpmCli : null
  const [bun, deno] = await Promise.all([pathOf('bun'), pathOf('deno')])
  return {
    node: (await pathOf('node')) ?? own.node,
    ...clis,
    runners: await runnersOf(Object.values(clis), { node, ownNode: own.node, native }),
    ...(bun === undefined ? {} : { bun }),
    ...(deno === undefined ? {} : { deno }),
  }
}

async function scriptIn(folder: string, name: string): Promise<string> {
  const { bin } = await manifestOf(folder)
  const script = typeof bin === 'string' ? bin : bin?.[name]
  if (typeof script !== 'string') throw new Error(`The package in ${folder} has no program ${name}.`)
  return join(folder, script)
}

/** Returns the runners of the package managers that do not run on the Node of the app. */
async function runnersOf(
  clis: readonly string[],
  {
    node,
    ownNode,
    native,
  }: { readonly node: string | undefined; readonly ownNode: string; readonly native: string | null },
): Promise<Readonly<Record<string, string | null>>> {
  const runners: Record<string, string | null> = {}
  for (const cli of clis) {
    if (cli === native) runners[cli] = null
    else if (node !== undefined && !(await supports(cli, node))) runners[cli] = ownNode
  }
  return runners
}

/** False when the script's package excludes this version of Node. */
async function supports(script: string, node: string): Promise<boolean> {
  const { engines } = await manifestOf(dirname(script))
  return engines?.node === undefined || satisfies(node, engines.node)
}

interface Manifest {
  readonly bin?: string | Readonly<Record<string, string>>
  readonly engines?: { readonly node?: string }
}

/**
 * Reads the package.json of the package that contains a folder. The folder of a script may have a package.json without
 * a name, which only sets the module format.
 */
async function manifestOf(folder: string): Promise<Manifest> {
  for (let at = folder; ; at = dirname(at)) {
    const text = await readOptional(join(at, 'package.json'))
    const manifest = text === undefined ? undefined : (JSON.parse(text) as Manifest & { readonly name?: string })
    if (manifest?.name !== undefined) return manifest
    if (at === dirname(at)) return {}
  }
}

/** The last days with security fixes for each major of Node, from its release schedule. */
const lastDays: Readonly<Record<number, string>> = {
  18: '2025-04-30',
  19: '2023-06-01',
  20: '2026-04-30',
  21: '2024-06-01',
  22: '2027-04-30',
  23: '2025-06-01',
  24: '2028-04-30',
  25: '2026-06-01',
  26: '2029-04-30',
}
const oldestListed = 18

/** Returns a warning for a version of Node without security fixes; null for others. */
function endOfLife(version: string, now: Date): string | null {
  const major = Number(version.split('.')[0])
  const lastDay = lastDays[major]
  const hasEnded = lastDay === undefined ? major < oldestListed : now > new Date(`${lastDay}T23:59:59Z`)
  if (!hasEnded) return null
  const since = lastDay === undefined ? '' : ` since ${lastDay}`
  return `Warning: Node ${major} has had no security fixes${since}. Move the app to a newer one.`
}

/**
 * Returns the last npm of the major that shipped with a version of Node, where the npm of the server does not run; else
 * null.
 */
function npmFor(node: string): string | null {
  const [major = 0, minor = 0] = node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 17)) return null
  if (major >= 19 || (major === 18 && minor >= 17)) return '10.9.4'
  if (major >= 17 || (major === 16 && minor >= 13)) return '9.9.4'
  return major >= 14 ? '8.19.4' : '6.14.18'
}
