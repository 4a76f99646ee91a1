import { dirname, join } from 'node:path'
import satisfies from 'semver/functions/satisfies.js'
import { readOptional } from '../../../platform/files.ts'
import { isModernYarn, type ToolName } from '../../../platform/toolchain.ts'
import { type Machine, packageOf } from './packages.ts'
import type { OwnTools, PrepareBinOptions } from './prepare-bin.ts'
import { folderName, type Tools } from './record.ts'

/** Finds the programs of the tools. A package manager that does not support the app's Node runs on the server's. */
export async function locate(
  tools: Tools,
  own: OwnTools,
  { directory, machine }: { readonly directory: string; readonly machine: Machine },
): Promise<Omit<PrepareBinOptions, 'directory'>> {
  const { node, pnpm, yarn } = tools
  /** The path of a program, or of a script for Node; undefined for the server's own. */
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

/** Returns the script of a package manager as its package.json names it. */
async function scriptIn(folder: string, name: string): Promise<string> {
  const { bin } = await manifestOf(folder)
  const script = typeof bin === 'string' ? bin : bin?.[name]
  if (typeof script !== 'string') throw new Error(`The package in ${folder} has no program ${name}.`)
  return join(folder, script)
}

/** Returns the runners of those package managers that do not run on the app's Node. */
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

/** True when the package of a script says nothing against a version of Node. */
async function supports(script: string, node: string): Promise<boolean> {
  const { engines } = await manifestOf(dirname(script))
  return engines?.node === undefined || satisfies(node, engines.node)
}

interface Manifest {
  readonly bin?: string | Readonly<Record<string, string>>
  readonly engines?: { readonly node?: string }
}

/** Reads the package.json of the package that a folder belongs to; a script's own folder may have one for its format. */
async function manifestOf(folder: string): Promise<Manifest> {
  for (let at = folder; ; at = dirname(at)) {
    const text = await readOptional(join(at, 'package.json'))
    const manifest = text === undefined ? undefined : (JSON.parse(text) as Manifest & { readonly name?: string })
    if (manifest?.name !== undefined) return manifest
    if (at === dirname(at)) return {}
  }
}
