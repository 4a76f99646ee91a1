import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { systemPackages } from '../../../scripts/system-packages.js'
import { installEverything, packagesWith } from '../../../server/src/platform/debian-packages.ts'

const names = installEverything(false).split(' && ')[0]?.split(' ').slice(4) ?? []

it('the README and the system tests install every package that a server uses', () => {
  expect(names).toEqual(expect.arrayContaining(['bubblewrap', 'caddy', 'git', 'iproute2', 'nftables', 'passt']))
  const readme = readFileSync('README.md', 'utf8')
  expect(readme.split('\n').filter((line) => line.includes('apt-get install') && line.includes(' git'))).toEqual([
    installEverything(false),
  ])
  expect(systemPackages.map((each) => each.package)).toEqual(expect.arrayContaining(names))
  // They query the list for missing packages.
  expect(readFileSync('.ci/run', 'utf8')).toContain('<(node scripts/system-packages.js)')
})

it('a machine that already has Caddy keeps Caddy’s service', () => {
  expect(installEverything(true)).not.toContain('systemctl')
})

it('names the packages of programs', () => {
  expect(packagesWith('ip', 'nft', 'nsenter')).toBe('iproute2, nftables, and util-linux')
})
