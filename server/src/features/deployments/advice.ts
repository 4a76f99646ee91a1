import { stripVTControlCharacters } from 'node:util'
import type { BuildPlan } from '../../builds/build-plan.ts'
import type { Command } from '../../platform/command.ts'
import { DeploymentError, withSentence } from './failure.ts'

/** Returns another way to run a failed build command, with a note for its log; null without a known obstacle. */
export function anotherTry(
  { unlocked, ...command }: Command,
  lines: readonly string[],
): { readonly command: Command; readonly note: string } | null {
  if (unlocked !== undefined && refusesLock(lines))
    return { command: { ...command, argv: unlocked }, note: unlockedNote }
  if (!lacksOldHash.test(stripVTControlCharacters(lines.join('\n')))) return null
  return { command: { ...command, nodeOptions: ['--openssl-legacy-provider'] }, note: oldHashNote }
}

/** Returns the advice for a failed build whose last lines name one of these obstacles. */
export function buildAdvice(lines: readonly string[]): string | undefined {
  const text = stripVTControlCharacters(lines.join('\n'))
  return obstacles.find(([pattern]) => pattern.test(text))?.[1]
}

/** Returns the next step for an app whose last lines tell why it ended before it answered. */
export function startAdvice(lines: readonly string[]): string | undefined {
  const text = stripVTControlCharacters(lines.join('\n'))
  for (const [pattern, advice] of reasons) {
    const match = pattern.exec(text)
    if (match !== null) return advice(match)
  }
  return undefined
}

/**
 * Adds to a deployment's error the names of variables that the repository has samples for and that have no value.
 * Returns other errors unchanged.
 *
 * @param variables the app's variables, without samples
 */
export function nameUnset(
  error: unknown,
  { samples }: Pick<BuildPlan, 'samples'>,
  variables: Readonly<Record<string, string>>,
): unknown {
  if (samples === undefined || !(error instanceof DeploymentError) || !codes.has(error.failure.code)) return error
  const unset = samples.names.filter((name) => !Object.hasOwn(variables, name))
  if (unset.length === 0) return error
  const named = unset.slice(0, mostNamed).join(', ')
  const more = unset.length > mostNamed ? ` and ${unset.length - mostNamed} more` : ''
  return withSentence(
    error,
    `${samples.file} names variables that have no value here: ${named}${more}. If the app needs them, set them in the ` +
      'request (env_vars), with "fairlead env set", or in the dashboard, and deploy again.',
  )
}

const codes: ReadonlySet<string> = new Set([
  'build_failed',
  'release_failed',
  'app_exited',
  'not_listening',
  'unhealthy',
])
const mostNamed = 12

const refusesLock = (lines: readonly string[]): boolean => lockRefusal.test(stripVTControlCharacters(lines.join('\n')))

/**
 * How package managers refuse a lock file that does not fit package.json. npm prints the command's help below its
 * reason, which may stand far above the last lines.
 */
const lockRefusal =
  /package\.json and \S+ (or \S+ )?are in sync|npm help ci\b|ERR_PNPM_OUTDATED_LOCKFILE|lockfile needs to be updated|YN0028|lockfile had changes, but lockfile is frozen/i

const unlockedNote =
  'warning: The lock file does not fit package.json, so each deployment chooses versions anew, and they may differ. ' +
  'Run the install command of the package manager, and commit the lock file that it writes.'

const oldHashNote =
  'warning: The build uses a hash that Node 17 and later allow only with --openssl-legacy-provider, as webpack 4 does. It runs ' +
  'again with that option. Newer versions of the build tools, or "engines" in package.json with the Node that they were made ' +
  'for, make it unnecessary.'

/** webpack 4 and similar tools use a hash (MD4) that OpenSSL 3 has only in its legacy provider. */
const lacksOldHash = /ERR_OSSL_EVP_UNSUPPORTED|digital envelope routines::(unsupported|initialization error)/

/** Obstacles whose message is easily missed, or whose cause is the machine or its network; the first match counts. */
const obstacles: readonly (readonly [pattern: RegExp, advice: string])[] = [
  [
    /self[- ]signed certificate|SELF_SIGNED_CERT|unable to get (local )?issuer certificate|UNABLE_TO_(GET_ISSUER|VERIFY)|CERTIFICATE_VERIFY_FAILED|certificate verify failed|certificate signed by unknown authority|SSL certificate problem|invalid peer certificate|PKIX path building failed/i,
    'A server that the build downloads from has a certificate that the build does not trust, as behind a proxy that ' +
      "inspects TLS. The operator of this server names the authority's file in FAIRLEAD_BUILD_ENV, by the variable of the " +
      'tool: NODE_EXTRA_CA_CERTS (npm, pnpm, Yarn), PIP_CERT (pip), GIT_SSL_CAINFO (git), SSL_CERT_FILE (others).',
  ],
  [
    /\b(ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH)\b|Temporary failure in name resolution|Name or service not known|Could not resolve host|dial tcp.*(no such host|i\/o timeout|connection refused)|NewConnectionError|UnknownHostException|Failed to open TCP connection to|nxdomain/i,
    'A host that the build downloads from was not reached. If this machine reaches the internet only through a mirror or ' +
      'a proxy, its operator sets that in FAIRLEAD_BUILD_ENV, for example as npm_config_registry, PIP_INDEX_URL or HTTPS_PROXY.',
  ],
  [
    lockRefusal,
    'The lock file does not fit package.json. Run the install command of the package manager (such as npm install), and ' +
      'commit the lock file that it writes.',
  ],
]

/** Reasons that programs print when they end at their start, and the next step for each; the first match counts. */
const reasons: readonly (readonly [pattern: RegExp, advice: (match: readonly string[]) => string])[] = [
  [
    /Cannot find (?:module|package) '((?:@[\w.-]+\/)?[a-z0-9][\w.-]*)[^']{0,200}'/i,
    ([, name]) =>
      `The package ${name} was not installed: add it to "dependencies" in package.json. Packages in "devDependencies" are not installed for an app without a build.`,
  ],
  [
    /Cannot find module '[./][^']{0,400}'/,
    () =>
      'A file that the app loads is not there: check that it is in the repository, with the same upper and lower case in its name, or that the build creates it.',
  ],
  [
    /ModuleNotFoundError: No module named '([\w-]+)/,
    ([, name]) =>
      `Python has no module ${name}: add the package that holds it to requirements.txt or pyproject.toml, or see that the file is in the repository.`,
  ],
  [
    /cannot load such file -- ([\w./-]+)/,
    ([, name]) =>
      `Ruby cannot load ${name}: add the gem that holds it to the Gemfile, or see that the file is in the repository.`,
  ],
  [
    /^(?:\/bin\/)?sh: (?:\d+: )?(?:exec: )?([\w@./-]+): (?:command )?not found$/m,
    ([, name]) =>
      `There is no program ${name}: add the package that brings it to the app's packages, or start another program.`,
  ],
  [
    /Cannot use import statement outside a module|require is not defined in ES module scope/,
    () =>
      'The file is written for the other kind of modules: set "type" in package.json to "module" for import, or to "commonjs" for require.',
  ],
  [
    /^KeyError: '([A-Z][A-Z0-9_]{2,})'|key not found: "([A-Z][A-Z0-9_]{2,})"|\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b[^\n]{0,40}\b(?:not set|unset|not defined|undefined|missing|required|must be set)\b/m,
    (match) =>
      `The app asks for the variable ${match.slice(1).find((name) => name !== undefined)}: set it with fairlead env, in the dashboard or in env_vars, and deploy again.`,
  ],
  [
    /ECONNREFUSED (?:127\.0\.0\.1|::1|localhost):(\d+)|connection to server at "(?:localhost|127\.0\.0\.1)[^\n]{0,40}port (\d+) failed/,
    (match) =>
      `Nothing listens on port ${match[1] ?? match[2]} of the app's own machine: create the service, such as a database of the project, and set its address in the app's variables.`,
  ],
  [
    /EADDRINUSE|Address already in use/i,
    () => 'The port was already taken by another part of the app: let one process listen on the port in PORT.',
  ],
]
