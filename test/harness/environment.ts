import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'

const knownRegistry = 'TEST_REGISTRY'

/**
 * Returns npm's setting. It asks once in a run, because npm takes as long as a server's start. Workers inherit the
 * variable from the process that sets up the run.
 */
function npmRegistry(): string {
  const known = process.env[knownRegistry]
  if (known !== undefined) return known
  const found = execFileSync('npm', ['config', 'get', 'registry'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim()
  process.env[knownRegistry] = found
  return found
}

/** Returns the variables that give builds this machine's access to the package registry. */
export function buildEnvironment(): Record<string, string> {
  const registry = npmRegistry()
  const certificates = process.env['NODE_EXTRA_CA_CERTS']
  return {
    npm_config_registry: registry,
    YARN_NPM_REGISTRY_SERVER: registry,
    ...(certificates === undefined ? {} : { NODE_EXTRA_CA_CERTS: certificates }),
  }
}

/** Returns the variables that give builds this machine's access to the index of Python packages. */
export function pipEnvironment(): Record<string, string> {
  const names = ['index-url', 'extra-index-url', 'find-links', 'cert']
  const found = names.flatMap((name) => {
    const variable = `PIP_${name.replaceAll('-', '_').toUpperCase()}`
    const value = process.env[variable] ?? pipSetting(`global.${name}`)
    return value === undefined ? [] : [[variable, value] as const]
  })
  // Asks an unreachable index only once.
  return { ...Object.fromEntries(found), PIP_RETRIES: '0' }
}

/** Debian's packages of Maven's plugins, in the layout of a Maven repository. */
const mavenRepository = '/usr/share/maven-repo'

/** Returns the variables that let builds use this machine's packages of Maven's plugins. */
export const mavenEnvironment = (): Record<string, string> =>
  existsSync(mavenRepository) ? { MAVEN_OPTS: `-Dmaven.repo.local=${mavenRepository}` } : {}

function pipSetting(name: string): string | undefined {
  try {
    const found = execFileSync('python3', ['-m', 'pip', 'config', 'get', name], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return found.trim() || undefined
  } catch {
    return undefined
  }
}
