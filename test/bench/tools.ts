import { chromiumPath } from '../harness/chromium.ts'
import { noDocker } from '../harness/docker.ts'
import { noCaddy } from '../harness/edge.ts'
import { noRegistry } from '../harness/registry.ts'
import { versionOf } from './children.ts'

/** A program of the system that benchmarks need, or compare with. */
export interface Tool {
  readonly name: string
  /** The Debian packages that contain it. */
  readonly packages: readonly string[]
  /** Resolves to the reason why it cannot be used here; `null` when it can. */
  missing(): Promise<string | null>
}

const program = (name: string, versionArgs: readonly string[], packages: readonly string[] = [name]): Tool => ({
  name,
  packages,
  missing: once(async () => ((await versionOf(name, versionArgs)) === null ? 'it is not installed' : null)),
})

export const git = program('git', ['--version'])
export const wrk = program('wrk', ['-v'])
export const nginx = program('nginx', ['-v'], ['nginx-light'])
export const bubblewrap = program('bwrap', ['--version'], ['bubblewrap'])
export const caddy: Tool = { name: 'caddy', packages: ['caddy'], missing: once(noCaddy) }
export const docker: Tool = { name: 'dockerd', packages: ['docker.io', 'iptables'], missing: once(noDocker) }
export const registry: Tool = { name: 'docker-registry', packages: ['docker-registry'], missing: once(noRegistry) }
export const chromium: Tool = {
  name: 'chromium',
  packages: ['chromium'],
  missing: async () => (chromiumPath === undefined ? 'it is not installed' : null),
}

/** Checking whether a Docker engine starts takes seconds. */
function once(look: () => Promise<string | null>): () => Promise<string | null> {
  let seen: Promise<string | null> | undefined
  return () => {
    seen ??= look()
    return seen
  }
}
