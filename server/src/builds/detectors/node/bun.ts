import type { Command } from '../../../platform/command.ts'
import type { SourceTree } from '../../source/tree.ts'
import type { NodeApp } from './start.ts'

/** The files that `bun init` and its templates start from. */
const mains = ['index.ts', 'index.tsx', 'index.js', 'server.ts']

/** Returns the start of an app of Bun's without a "start" script: Bun runs TypeScript, and `module`. Null for other apps. */
export function planBunStart(app: SourceTree, { package: manifest, installing }: NodeApp): Command | null {
  if (installing.manager.name !== 'bun' || manifest.scripts.has('start')) return null
  const named = [manifest.module, manifest.main].find((file) => file !== undefined && mayExist(app, file))
  const file = named ?? mains.find((name) => app.has(name))
  return file === undefined ? null : { argv: ['bun', 'run', file] }
}

/** Only the names at the top of the tree are known. */
function mayExist(app: SourceTree, path: string): boolean {
  const [top = ''] = path.replace(/^\.\//, '').split('/')
  return !['', '.', '..'].includes(top) && !top.startsWith('-') && !path.includes('\0') && app.has(top)
}
