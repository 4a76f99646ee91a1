import { readFileSync } from 'node:fs'
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'

/*
 * A module is a source, or a part of a bundle in `dist/programs`, so its path does not tell where the package's other
 * files are.
 */

const manifest = findPackageJSON(import.meta.url)
if (manifest === undefined) throw new Error('the package of the server is incomplete: it has no package.json')

export const ownRoot = dirname(manifest)

export const { version: ownVersion } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string }

export const assetFile = (path: string): string => join(ownRoot, 'assets', path)

/** Returns the path of a file or folder that the build has made, whether this module itself was built or not. */
export const builtFile = (path: string): string => join(ownRoot, 'dist', path)

/** Returns the path of a program that the server starts as a separate process: a bundle from `scripts/build.ts`. */
export const programFile = (name: 'gateway' | 'planner' | 'terminal'): string => builtFile(`programs/${name}.mjs`)
