import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'

const knownRegistry = 'FAIRLEAD_TEST_REGISTRY'

/**
 * Returns npm's setting. It asks once in a run, because npm takes as long for it as a server for its start: the workers inherit the
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

/** Returns the variables by which builds reach the package registry as this machine does. */
export function buildEnvironment(): Record<string, string> {
  const registry = npmRegistry()
  const certificates = process.env['NODE_EXTRA_CA_CERTS']
  return {
    npm_config_registry: registry,
    YARN_NPM_REGISTRY_SERVER: registry,
    ...(certificates === undefined ? {} : { NODE_EXTRA_CA_CERTS: certificates }),
  }
}

/** Returns the variables by which builds reach the index of Python packages as this machine does. */
export function pipEnvironment(): Record<string, string> {
  const names = ['index-url', 'extra-index-url', 'find-links', 'cert']
  const found = names.flatMap((name) => {
    const variable = `PIP_${name.replaceAll('-', '_').toUpperCase()}`
    const value = process.env[variable] ?? pipSetting(`global.${name}`)
    return value === undefined ? [] : [[variable, value] as const]
  })
  // An index that is away is not asked again and again.
  return { ...Object.fromEntries(found), PIP_RETRIES: '0' }
}

/** Debian's packages of Maven's plugins, in the layout of a repository of Maven's. */
const mavenRepository = '/usr/share/maven-repo'

/** Returns the variables by which builds take Maven's plugins from this machine, where its packages have them. */
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
