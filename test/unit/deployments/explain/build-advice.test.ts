import { expect, it } from 'vitest'
import { buildAdvice } from '../../../../server/src/features/deployments/advice.ts'
import { commandLine } from '../../../../server/src/runtimes/command-line.ts'

it.each([
  'npm error self-signed certificate in certificate chain',
  'npm error code SELF_SIGNED_CERT_IN_CHAIN',
  "Could not fetch URL https://pypi.org/simple/flask/: SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))",
  'fatal: unable to access: server certificate verification failed. SSL certificate problem: unable to get local issuer certificate',
  'go: tls: failed to verify certificate: x509: certificate signed by unknown authority',
  'error: invalid peer certificate: UnknownIssuer',
  'sun.security.validator.ValidatorException: PKIX path building failed',
])('%s names the setting for certificates', (line) => {
  expect(buildAdvice(['before', `\u001b[31m${line}\u001b[0m`, 'after'])).toContain('NODE_EXTRA_CA_CERTS')
})

it.each([
  'npm error code ENOTFOUND',
  'npm error request to https://registry.npmjs.org failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org',
  'go: dial tcp: lookup proxy.golang.org on 127.0.0.1:53: no such host',
  'curl: (6) Could not resolve host: rubygems.org',
  'Exception in thread "main" java.net.UnknownHostException: repo.maven.apache.org',
  'Failed to open TCP connection to rubygems.org:443 (getaddrinfo: Name does not resolve)',
  '** (Mix) httpc request failed with: {:failed_connect, [{:inet, [:inet], :nxdomain}]}',
])('%s names the setting for mirrors and proxies', (line) => {
  expect(buildAdvice([line])).toMatch(/FAIRLEAD_BUILD_ENV.*HTTPS_PROXY/)
})

it.each([
  'npm error `npm ci` can only install packages when your package.json and package-lock.json or npm-shrinkwrap.json are in sync.',
  'ERR_PNPM_OUTDATED_LOCKFILE  Cannot install with "frozen-lockfile" because pnpm-lock.yaml is not up to date',
  'error Your lockfile needs to be updated, but yarn was run with `--frozen-lockfile`.',
  '➤ YN0028: │ The lockfile would have been modified by this install, which is explicitly forbidden.',
  'error: lockfile had changes, but lockfile is frozen',
])('%s names the lock file', (line) => {
  expect(buildAdvice([line, 'Clean install a project', 'Usage:', 'npm ci'])).toContain('commit the lock file')
})

it('an error of the code gets no advice', () => {
  expect(buildAdvice(['Error: Cannot find module "express"', 'certificate.ts(3,1): error TS2304'])).toBeUndefined()
})

it.each([
  [['npm', 'ci'], 'npm ci'],
  [['fairlead-in', 'apps/web', 'npm', 'run', 'build'], 'npm run build (in the folder apps/web)'],
  [
    ['fairlead-in', 'api', '/bin/sh', '-c', 'rake db:migrate && echo done'],
    'rake db:migrate && echo done (in the folder api)',
  ],
  [['fairlead-static', '--spa', 'dist'], 'fairlead-static --spa dist'],
  [['fairlead-python-lock', 'uv.lock'], 'pip install from uv.lock'],
])('%j is shown as its owner would write it', (argv, shown) => {
  expect(commandLine(argv)).toBe(shown)
})

it('a lock file that does not fit is recognised by the end of npm’s help, too', () => {
  expect(buildAdvice(['npm error Run "npm help ci" for more info'])).toContain('lock file does not fit package.json')
})
