import { existsSync, readFileSync } from 'node:fs'
import { z } from 'zod'
import { assetFile } from './package-files.ts'

/* The Debian packages with the programs that a server uses. The tests, `.ci/run` and the README have the same list. */

const packages = z
  .array(z.object({ package: z.string(), programs: z.array(z.string()) }))
  .parse(JSON.parse(readFileSync(assetFile('debian-packages.json'), 'utf8')))

const names = packages.map((each) => each.package).join(' ')

/**
 * Returns the command that installs all packages. Debian's Caddy package starts a service that would take the ports of
 * the edge, so the command disables this service. If Caddy was installed before, its service may belong to the operator
 * and stays.
 */
export function installEverything(hasCaddy = existsSync('/usr/bin/caddy')): string {
  const install = `apt-get install --yes --no-install-recommends ${names}`
  return hasCaddy ? install : `${install} && systemctl disable --now caddy`
}

export function packagesWith(...programs: readonly string[]): string {
  const names = packages.filter((each) => each.programs.some((name) => programs.includes(name)))
  return new Intl.ListFormat('en').format(names.map((each) => each.package))
}
