import { execFile } from 'node:child_process'
import { createReadStream } from 'node:fs'
import { mkdir, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Engine } from '../../server/src/runtimes/docker/client.ts'
import { importTar } from '../harness/docker.ts'

/*
 * Base images that are built here from Debian's packages, with the names that Dockerfiles use. Nothing comes from a
 * registry.
 */

export interface BaseImage {
  readonly name: string
  readonly packages: readonly string[]
}

export const baseImages: readonly BaseImage[] = [
  { name: 'debian:bookworm-slim', packages: [] },
  { name: 'golang:1.19-bookworm', packages: ['golang-go', 'ca-certificates'] },
  { name: 'ruby:3.1-slim-bookworm', packages: ['ruby'] },
  { name: 'php:8.2-cli-bookworm', packages: ['php-cli'] },
  { name: 'rust:1.63-bookworm', packages: ['rustc', 'cargo'] },
]

/** Archives are kept, because each takes a minute or two to make. */
const folder = process.env['FAIRLEAD_TEST_IMAGES'] ?? '/var/tmp/fairlead-test-images'

/** Makes an image unless its archive exists, and loads it into an engine. Returns its size in bytes. */
export async function importDebian(
  engine: Engine,
  { name, packages }: BaseImage,
  signal: AbortSignal,
): Promise<number> {
  const archive = join(folder, `${name.replace(':', '-')}.tar`)
  const known = await stat(archive).catch(() => null)
  if (known === null) await makeArchive(archive, packages, signal)
  const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  await importTar(engine, name, createReadStream(archive), [`ENV PATH=${path}`, 'CMD ["/bin/sh"]'])
  return (await stat(archive)).size
}

async function makeArchive(archive: string, packages: readonly string[], signal: AbortSignal): Promise<void> {
  await mkdir(folder, { recursive: true })
  const fresh = `${archive}.${process.pid}.tar`
  const args = [
    '--variant=minbase',
    '--dpkgopt=path-exclude=/usr/share/doc/*',
    '--dpkgopt=path-exclude=/usr/share/man/*',
    ...(packages.length === 0 ? [] : [`--include=${packages.join(',')}`]),
    ...['bookworm', fresh, 'http://deb.debian.org/debian'],
  ]
  await promisify(execFile)('mmdebstrap', args, { signal, maxBuffer: 50_000_000 })
  await rename(fresh, archive)
}
