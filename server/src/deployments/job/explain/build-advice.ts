import { stripVTControlCharacters } from 'node:util'
import type { Command } from '../../../platform/command.ts'

/** The refusals of package managers whose lock file does not fit package.json. */
// npm prints the help of the command below its reason, which may stand far above the last lines.
const lockRefusal =
  /package\.json and \S+ (or \S+ )?are in sync|npm help ci\b|ERR_PNPM_OUTDATED_LOCKFILE|lockfile needs to be updated|YN0028|lockfile had changes, but lockfile is frozen/i

/** webpack 4 and its like use a hash (MD4) that OpenSSL 3, and so Node 17 and later, has in its legacy provider alone. */
const lacksOldHash = /ERR_OSSL_EVP_UNSUPPORTED|digital envelope routines::(unsupported|initialization error)/

/** Obstacles whose message is easily missed, or that lie with the machine or its network; the first that fits counts. */
const obstacles: readonly (readonly [pattern: RegExp, advice: string])[] = [
  [
    /self[- ]signed certificate|SELF_SIGNED_CERT|unable to get (local )?issuer certificate|UNABLE_TO_(GET_ISSUER|VERIFY)|CERTIFICATE_VERIFY_FAILED|certificate verify failed|certificate signed by unknown authority|SSL certificate problem|invalid peer certificate|PKIX path building failed/i,
    'A server that the build downloads from has a certificate that the build does not trust, as behind a proxy that ' +
      "inspects TLS. The operator of this server names the authority's file in FAIRLEAD_BUILD_ENV, by the variable of the " +
      'tool: NODE_EXTRA_CA_CERTS (npm, pnpm, Yarn), PIP_CERT (pip), GIT_SSL_CAINFO (git), SSL_CERT_FILE (others).',
  ],
  [
    /\b(ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH)\b|Temporary failure in name resolution|Name or service not known|Could not resolve host|dial tcp.*(no such host|i\/o timeout|connection refused)|NewConnectionError|UnknownHostException|Failed to open TCP connection to|nxdomain/i,
    'A host that the build downloads from was not reached. If this machine reaches the internet by a mirror or a proxy ' +
      'alone, its operator names that in FAIRLEAD_BUILD_ENV, for example as npm_config_registry, PIP_INDEX_URL or HTTPS_PROXY.',
  ],
  [
    lockRefusal,
    'The lock file does not fit package.json. Run the install command of the package manager (such as npm install), and ' +
      'commit the lock file that it writes.',
  ],
]

/** True when the last lines tell that the package manager installed nothing, for the lock file does not fit. */
const refusesLock = (lines: readonly string[]): boolean => lockRefusal.test(stripVTControlCharacters(lines.join('\n')))

const unlockedNote =
  'warning: The lock file does not fit package.json, so versions are chosen anew, and may be others with each deployment. ' +
  'Run the install command of the package manager, and commit the lock file that it writes.'

const oldHashNote =
  'warning: The build uses a hash that Node 17 and later allow only with --openssl-legacy-provider, as webpack 4 does. It runs ' +
  'again with that option. Newer versions of the build tools, or "engines" in package.json with the Node that they were made ' +
  'for, make it unnecessary.'

/**
 * Returns how a command of a build that failed is run once more, and what the log says of that; null where its last lines
 * name no obstacle that another way of running it removes.
 */
export function anotherTry(
  { unlocked, ...command }: Command,
  lines: readonly string[],
): { readonly command: Command; readonly note: string } | null {
  if (unlocked !== undefined && refusesLock(lines))
    return { command: { ...command, argv: unlocked }, note: unlockedNote }
  if (!lacksOldHash.test(stripVTControlCharacters(lines.join('\n')))) return null
  return { command: { ...command, nodeOptions: ['--openssl-legacy-provider'] }, note: oldHashNote }
}

/** Returns the advice for a failed build whose last lines name one of these obstacles; else undefined. */
export function buildAdvice(lines: readonly string[]): string | undefined {
  const text = stripVTControlCharacters(lines.join('\n'))
  return obstacles.find(([pattern]) => pattern.test(text))?.[1]
}
