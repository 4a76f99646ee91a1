import { join } from 'node:path'
import valid from 'semver/functions/valid.js'
import type { ToolName, ToolRequest } from '../../../platform/toolchain.ts'
import { RuntimeError } from '../../runtime.ts'
import { asks, type Choice, chooseDownloaded, chooseFrom, hasProgram, ownThatFits } from './choose.ts'
import { npmFor } from './node-releases.ts'
import { titles } from './packages.ts'
import type { OwnTools } from './prepare-bin.ts'
import { downloadedVersions, folderName, type Tools } from './record.ts'
import { hasDigest, RegistryError } from './registry.ts'

export interface ResolveParts {
  readonly own: OwnTools
  /** The folder of downloaded tools. */
  readonly directory: string
  readonly now: Date
  /** Lists the versions that the registry has. Rejects with a `RegistryError`. */
  readonly versions: (request: ToolRequest) => Promise<readonly string[]>
  /** Brings a version, and returns its folder. Rejects with a `RegistryError`. */
  readonly download: (soFar: Tools, tool: ToolName, version: string) => Promise<string>
  readonly say: (line: string) => Promise<unknown>
}

/**
 * Chooses and downloads the tools of a release. Of several requests for one tool the first counts. Returns those that are
 * not the server's own, and Node.
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
  // Without it the server's npm does, on the server's Node.
  const request: ToolRequest = { tool: 'npm', range: npm, from: `Node ${tools.node}` }
  const version = await resolveTool(request, tools, { ...parts, say: async () => undefined })
  return version === null ? tools : { ...tools, npm: version }
}

/** The server's own Node is recorded as well, so that the release keeps its major when the server gets another one. */
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

/** Takes a full version without a look at the list of versions. Null when there is none of this number. */
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

/** The server's own package managers stand in for others. Nothing else can be left out. */
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
