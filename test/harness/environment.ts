import { execFileSync } from 'node:child_process'

/** Returns the variables by which builds reach the package registry as this machine does. */
export function buildEnvironment(): Record<string, string> {
  const registry = execFileSync('npm', ['config', 'get', 'registry'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim()
  const certificates = process.env['NODE_EXTRA_CA_CERTS']
  return {
    npm_config_registry: registry,
    YARN_NPM_REGISTRY_SERVER: registry,
    ...(certificates === undefined ? {} : { NODE_EXTRA_CA_CERTS: certificates }),
  }
}
