import { readFileSync } from 'node:fs'
import minVersion from 'semver/ranges/min-version.js'
import { isModernYarn, type ToolName } from '../../../platform/toolchain.ts'

export interface ToolPackage {
  readonly name: string
  /** The files to keep from the package; absent for all files. */
  readonly files?: readonly string[]
  /** The path of the program in the package; absent where package.json names a script for Node. */
  readonly program?: string
  /** The package whose hash `packageManager` names, if it is another package. */
  readonly hashed?: string
}

export interface Machine {
  readonly platform: string
  /** The architecture, as in `process.arch`. */
  readonly arch: string
  /** True when the flags in /proc/cpuinfo contain AVX2. */
  readonly hasAvx2: boolean
}

export const thisMachine = (): Machine => ({
  platform: process.platform,
  arch: process.arch,
  hasAvx2: process.arch === 'x64' && / avx2 /.test(cpuInfo()),
})

function cpuInfo(): string {
  try {
    return readFileSync('/proc/cpuinfo', 'utf8')
  } catch {
    return ''
  }
}

/**
 * Returns the package of the npm registry that contains a tool. Node's own package `node` installs the same packages.
 *
 * @param range a version or a range: Yarn 2 and later is in another package than Yarn 1
 */
export function packageOf(tool: ToolName, range: string, { platform, arch, hasAvx2 }: Machine): ToolPackage {
  if (tool === 'node') {
    return { name: `node-${platform}-${arch}`, files: ['bin/node', 'package.json'], program: 'bin/node' }
  }
  if (tool === 'bun') {
    const cpu = arch === 'arm64' ? 'aarch64' : arch
    // Processors without AVX2 need the baseline build.
    const build = arch === 'x64' && !hasAvx2 ? '-baseline' : ''
    return { name: `@oven/bun-${platform}-${cpu}${build}`, program: 'bin/bun' }
  }
  if (tool === 'deno') return { name: `@deno/${platform}-${arch}-glibc`, program: 'deno' }
  if (tool === 'yarn' && isModernYarn(range)) return { name: '@yarnpkg/cli-dist' }
  if (tool === 'pnpm' && leastMajor(range) >= firstNativePnpm) {
    return { name: `@pnpm/exe.${platform}-${arch}`, program: 'pnpm', hashed: 'pnpm' }
  }
  return { name: tool }
}

/** From this major version on, pnpm is a native program. */
const firstNativePnpm = 12

const leastMajor = (range: string): number => minVersion(range)?.major ?? 0

export const titles: Readonly<Record<ToolName, string>> = {
  node: 'Node',
  npm: 'npm',
  pnpm: 'pnpm',
  yarn: 'Yarn',
  bun: 'Bun',
  deno: 'Deno',
}
