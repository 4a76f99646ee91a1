import { open } from 'node:fs/promises'
import { createEngine } from '../../../../server/src/runtimes/docker/client.ts'
import type { Release } from '../../../../server/src/runtimes/runtime.ts'
import { type OpenBuildsOptions, openBuilds } from './open-builds.ts'

/** A process that builds one Dockerfile, as a server does, until it is killed. */
export interface BuildAssignment {
  /** The engine that receives the image. */
  readonly socket: string
  readonly options: OpenBuildsOptions
  readonly release: Release
  readonly log: string
}

const { socket, options, release, log } = JSON.parse(process.argv[2] ?? '') as BuildAssignment
const { builds } = await openBuilds(createEngine(socket), options)
const output = await open(log, 'a')
const file = { path: 'Dockerfile', target: null, context: '.' }
await builds.build(release, file, {
  output,
  signal: new AbortController().signal,
  credentialsFor: async () => null,
})
